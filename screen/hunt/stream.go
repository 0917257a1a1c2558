package hunt

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/memproxy/memproxy"
)

// StreamOptions set up a Stream.
type StreamOptions struct {
	Screen   Screener
	Errors   io.Writer         // gets a line for every line that cannot be read: "line 7: …"
	Progress memproxy.Progress // in lines
}

// Result is what came of a stream.
type Result struct {
	Counts
	Bad int64 // lines that could not be read
}

const (
	maxLine = 1 << 20 // bytes of a line; a longer one is a bad line
	ahead   = 64      // how many lines are read ahead of the one that is written, for each worker
)

// answer is a line and, when done is closed, what came of it.
type answer struct {
	line
	done    chan struct{}
	blank   bool
	bad     error // why the line cannot be read
	verdict Verdict
	out     bytes.Buffer
	err     error
}

// line is a line without its newline; long ones are only noted.
type line struct {
	raw  []byte
	long bool
}

// Stream reads JSON lines {"id","text"} and writes, in the same order,
// {"id","verdict","score","findings"}. Blank lines are passed over, lines that
// cannot be read are told and counted. An error is one of reading or writing,
// or the context's; what was written until then is whole lines.
func Stream(ctx context.Context, in io.Reader, out io.Writer, o StreamOptions) (Result, error) {
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	g.SetLimit(workers + 2) // with the reader and the writer
	// Each line goes to a worker and, in order, to the writer. The channel is
	// bounded, so that a slow writer stops the reader.
	order := make(chan *answer, ahead*workers)
	g.Go(func() error {
		defer close(order)
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			l, err := readOne(r)
			if err == nil || len(l.raw) > 0 || l.long {
				a := &answer{line: l, done: make(chan struct{})}
				select {
				case order <- a:
				case <-ctx.Done():
					return ctx.Err()
				}
				g.Go(func() error {
					defer close(a.done)
					a.judge(o.Screen)
					return nil
				})
			}
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return fmt.Errorf("hunt: reading: %w", err)
			}
		}
	})
	var total Result
	count := o.Progress.Counting()
	g.Go(func() error {
		number := 0
		for a := range order {
			select {
			case <-a.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			number++
			count(1)
			switch {
			case a.err != nil:
				return a.err
			case a.blank:
			case a.bad != nil:
				total.Bad++
				if _, err := fmt.Fprintf(o.Errors, "line %d: %v\n", number, a.bad); err != nil {
					return fmt.Errorf("hunt: telling of bad lines: %w", err)
				}
			default:
				total.add(a.verdict.Verdict)
				if _, err := out.Write(a.out.Bytes()); err != nil {
					return fmt.Errorf("hunt: writing: %w", err)
				}
			}
		}
		return nil
	})
	err := g.Wait()
	return total, err
}

// StreamUntil is Stream for an input whose reads cannot be called off, as those of a
// terminal: it returns when ctx ends, and the process is to end then.
func StreamUntil(ctx context.Context, in io.Reader, out io.Writer, o StreamOptions) (Result, error) {
	type end struct {
		Result
		err error
	}
	done := make(chan end, 1)
	go func() {
		r, err := Stream(ctx, in, out, o)
		done <- end{r, err}
	}()
	select {
	case e := <-done:
		return e.Result, e.err
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

func (a *answer) judge(screen Screener) {
	if a.long {
		a.bad = errTooLong
		return
	}
	raw := a.raw
	a.raw = nil // answers wait for those before them, and lines may be long
	if a.blank = len(bytes.TrimSpace(raw)) == 0; a.blank {
		return
	}
	var r record
	if r, a.bad = readLine(raw); a.bad != nil {
		return
	}
	a.verdict = screen(r.text)
	a.err = writeLine(&a.out, r, a.verdict)
}

// readOne reads one line. Of a line over the limit the rest is read away.
func readOne(r *bufio.Reader) (line, error) {
	var l line
	for {
		piece, err := r.ReadSlice('\n')
		full := err == bufio.ErrBufferFull
		if err == nil {
			piece = piece[:len(piece)-1]
		}
		if !l.long && len(l.raw)+len(piece) > maxLine {
			l = line{long: true}
		}
		if !l.long {
			l.raw = append(l.raw, piece...)
		}
		if !full {
			return l, err
		}
	}
}
