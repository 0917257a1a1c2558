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
	"github.com/memproxy/memproxy/internal/wait"
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
	ahead   = 64      // lines that are read ahead of the output, per worker
)

// answer is a line and, once done is closed, its result.
type answer struct {
	line
	done    chan struct{}
	blank   bool
	bad     error // why the line cannot be read
	verdict Verdict
	out     bytes.Buffer
	err     error
}

// line is a line without its newline. A line over the limit has no content.
type line struct {
	raw  []byte
	long bool
}

// Stream reads JSON lines {"id","text"} and writes, in the same order,
// {"id","verdict","score","findings"}. Blank lines are skipped; lines that cannot be read
// are reported and counted. An error is one of reading or writing, or the context's; the
// output so far is whole lines.
func Stream(ctx context.Context, in io.Reader, out io.Writer, o StreamOptions) (Result, error) {
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	g.SetLimit(workers + 2) // plus the reader and the writer
	// Each line goes to a worker and, in order, to the writer. The channel is bounded: a
	// slow writer stops the reader (back-pressure).
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
				total.Malformed++
				if _, err := fmt.Fprintf(o.Errors, "line %d: %v\n", number, a.bad); err != nil {
					return fmt.Errorf("hunt: reporting invalid lines: %w", err)
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

// StreamUntil is Stream for an input whose reads cannot be cancelled, such as a terminal.
// It returns when ctx ends and leaks the reading goroutine, so the process should exit
// then.
func StreamUntil(ctx context.Context, in io.Reader, out io.Writer, o StreamOptions) (Result, error) {
	var total Result
	var err error
	if ended := wait.For(ctx, func() { total, err = Stream(ctx, in, out, o) }); ended != nil {
		return Result{}, ended
	}
	return total, err
}

func (a *answer) judge(screen Screener) {
	if a.long {
		a.bad = errTooLong
		return
	}
	raw := a.raw
	a.raw = nil // frees the line: answers queue until the earlier ones are written
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

// readOne reads one line. The rest of a line over the limit is discarded.
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
