package hunt

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/memproxy/memproxy"
)

// StreamOptions set up a Stream.
type StreamOptions struct {
	Screen   Screener
	Errors   io.Writer         // receives a line for every line that cannot be read: "line 7: …"
	Progress memproxy.Progress // in lines
}

// Result is the outcome of a stream.
type Result struct {
	Counts
	Malformed int64 // lines that could not be read
}

const (
	maxLine = 1 << 20 // bytes of a line; a longer one is a bad line
	ahead   = 64      // answers that wait for those of earlier lines, per processor
)

// The reasons why a line cannot be read. They quote nothing of it.
var (
	errNotObject = errors.New("not a JSON object, or it repeats a member or is not UTF-8")
	errTrailing  = errors.New("unexpected data after the object")
	errNoText    = errors.New(`"text" is missing or not a string`)
	errBadID     = errors.New(`"id" is neither a string nor a number`)
	errTooLong   = errors.New("longer than the limit")
)

// answer is the result for a line.
type answer struct {
	bad     error // why the line cannot be read
	verdict memproxy.Verdict
	out     []byte // nil for a blank line
	err     error  // of reading behind the line, or of encoding out
}

// Stream reads JSON lines {"id","text"} and writes, in the same order,
// {"id","verdict","score","findings"}. Blank lines are skipped; lines that cannot be read
// are reported and counted. An error is one of reading or writing, or the context's; the
// output so far is whole lines. With an error, a read of in may still be under way: those of
// a terminal cannot be cancelled, so the process should exit then.
func Stream(ctx context.Context, in io.Reader, out io.Writer, o StreamOptions) (total Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	answers := make(chan chan answer, ahead*workers)
	go readLines(ctx, in, o.Screen, workers, answers)
	count, number := o.Progress.Counting(), 0
	for {
		var a answer
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case next, more := <-answers:
			if !more {
				return total, ctx.Err()
			}
			a = <-next
		}
		number++
		count(1)
		switch {
		case a.bad != nil:
			total.Malformed++
			if _, err := fmt.Fprintf(o.Errors, "line %d: %v\n", number, a.bad); err != nil {
				return total, fmt.Errorf("hunt: reporting invalid lines: %w", err)
			}
		case a.out != nil:
			total.add(a.verdict)
			if _, err := out.Write(a.out); err != nil {
				return total, fmt.Errorf("hunt: writing: %w", err)
			}
		}
		if a.err != nil {
			return total, fmt.Errorf("hunt: reading: %w", a.err)
		}
	}
}

// readLines sends for each line, in order, the channel on which its answer comes. At most
// workers lines are judged at once, and no more are in memory.
func readLines(ctx context.Context, in io.Reader, screen Screener, workers int, answers chan<- chan answer) {
	defer close(answers)
	var g errgroup.Group
	g.SetLimit(workers)
	for r := bufio.NewReaderSize(in, maxLine); ; {
		line, bad, end := readLine(r)
		if end == io.EOF && len(line) == 0 && bad == nil {
			return
		}
		to := make(chan answer, 1)
		select {
		case answers <- to:
		case <-ctx.Done():
			return
		}
		g.Go(func() error {
			a := answer{bad: bad}
			if bad == nil {
				a = judge(line, screen)
			}
			if end != nil && end != io.EOF {
				a.err = end
			}
			to <- a
			return nil
		})
		if end != nil {
			return
		}
	}
}

// readLine reads one line without its newline. A line over the limit is discarded.
func readLine(r *bufio.Reader) (line []byte, bad, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		if bad == nil {
			line = append(line, bytes.TrimSuffix(piece, []byte("\n"))...)
		}
		if len(line) > maxLine {
			line, bad = nil, errTooLong
		}
		if err != bufio.ErrBufferFull {
			return line, bad, err
		}
	}
}

// judge parses {"id","text"}, other members of which are ignored, and judges the text.
// Duplicate members and invalid UTF-8 are errors, so that every other reader of the line
// sees the text that was screened.
func judge(line []byte, screen Screener) (a answer) {
	if len(bytes.TrimSpace(line)) == 0 {
		return a
	}
	var in struct {
		ID   jsontext.Value `json:"id"`
		Text jsontext.Value `json:"text"`
	}
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	if dec.PeekKind() != '{' || jsonv2.UnmarshalDecode(dec, &in) != nil {
		return answer{bad: errNotObject}
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return answer{bad: errTrailing}
	}
	switch in.ID.Kind() {
	case '"', '0', 'n':
	case 0: // none
		in.ID = jsontext.Value("null")
	default:
		return answer{bad: errBadID}
	}
	var text string
	if in.Text.Kind() != '"' || jsonv2.Unmarshal(in.Text, &text) != nil {
		return answer{bad: errNoText}
	}
	v := screen(text)
	a.verdict = v.Verdict
	a.out, a.err = jsonv2.Marshal(struct {
		ID jsontext.Value `json:"id"` // as it was written
		Verdict
	}{in.ID, v})
	a.out = append(a.out, '\n')
	return a
}
