package ledger

import (
	"strconv"
	"strings"
)

// dialect is what the two stores differ in. Statements are written once, as
// SQLite reads them: ? and ?N for parameters, and tables in the words that ddl
// knows.
type dialect int

const (
	sqliteDialect dialect = iota
	postgresDialect
)

// sql is a statement in the dialect's words. It must hold no question mark but
// parameters'.
func (d dialect) sql(text string) string {
	if d == sqliteDialect {
		return text
	}
	text = strings.ReplaceAll(text, "SELECT value FROM json_each(", "SELECT json_array_elements_text(")
	var b strings.Builder
	next := 0
	for {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		n, err := strconv.Atoi(after[:digits])
		if err != nil {
			next++
			n = next
		}
		b.WriteString("$" + strconv.Itoa(n))
		text = after[digits:]
	}
}

// ddl is the definition of tables in the dialect's words, and what fills them.
// Text compares by bytes in both.
func (d dialect) ddl(text string) string {
	if d == sqliteDialect {
		return text
	}
	return strings.NewReplacer(" TEXT ", ` TEXT COLLATE "C" `, " INTEGER ", " BIGINT ", " BLOB ", " BYTEA ", ") WITHOUT ROWID;", ");",
		"json_group_array(", "json_agg(", "json_object(", "json_build_object(", "json(e.reasons)", "CAST(e.reasons AS json)",
		"strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000)",
		`to_char(to_timestamp(e.at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') || to_char(e.at % 1000000, '"."FM000000"Z"')`).Replace(text)
}
