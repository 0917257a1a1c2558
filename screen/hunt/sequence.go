package hunt

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// sequence walks several kinds of memory of a store, one after the other.
type sequence []Pager

// Page reads a page of the pager whose number stands before the colon of the
// cursor.
func (s sequence) Page(ctx context.Context, cursor string) ([]Item, string, error) {
	at, inner := 0, ""
	if cursor != "" {
		number, rest, ok := strings.Cut(cursor, ":")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n < 0 || n >= len(s) {
			return nil, "", errors.New("the cursor is of no pager in the sequence")
		}
		at, inner = n, rest
	}
	items, next, err := s[at].Page(ctx, inner)
	switch {
	case err != nil:
		return nil, "", err
	case next != "" && next == inner:
		return nil, "", ErrCircle
	case next != "":
		return items, strconv.Itoa(at) + ":" + next, nil
	case at+1 < len(s):
		return items, strconv.Itoa(at+1) + ":", nil
	}
	return items, "", nil
}
