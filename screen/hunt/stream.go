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
	ahead   = 64      // lines that are judged together, per processor
)

// answer is a line without its newline, and its result. A blank line has none.
type answer struct {
	raw     []byte
	bad     error // why the line cannot be read
	verdict Verdict
	out     []byte
}

// Stream reads JSON lines {"id","text"} and writes, in the same order,
// {"id","verdict","score","findings"}. Blank lines are skipped; lines that cannot be read
// are reported and counted. An error is one of reading or writing, or the context's; the
// output so far is whole lines.
func Stream(ctx context.Context, in io.Reader, out io.Writer, o StreamOptions) (Result, error) {
	r, workers := bufio.NewReaderSize(in, maxLine), runtime.GOMAXPROCS(0)
	var total Result
	count, number := o.Progress.Counting(), 0
	for {
		batch, end := readBatch(r, ahead*workers)
		var g errgroup.Group
		g.SetLimit(workers)
		for i := range batch {
			g.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return batch[i].judge(o.Screen)
			})
		}
		if err := g.Wait(); err != nil {
			return total, err
		}
		for i := range batch {
			a := &batch[i]
			number++
			count(1)
			switch {
			case a.bad != nil:
				total.Malformed++
				if _, err := fmt.Fprintf(o.Errors, "line %d: %v\n", number, a.bad); err != nil {
					return total, fmt.Errorf("hunt: reporting invalid lines: %w", err)
				}
			case a.out != nil:
				total.add(a.verdict.Verdict)
				if _, err := out.Write(a.out); err != nil {
					return total, fmt.Errorf("hunt: writing: %w", err)
				}
			}
		}
		if end == io.EOF {
			return total, nil
		}
		if end != nil {
			return total, fmt.Errorf("hunt: reading: %w", end)
		}
	}
}

// readBatch reads up to most lines: the next one, and whole lines that follow it in the
// buffer, without waiting for more input. The error is io.EOF after the last line.
func readBatch(r *bufio.Reader, most int) (batch []answer, err error) {
	for more := true; more; {
		var a answer
		if err = a.read(r); err == nil || len(a.raw) > 0 || a.bad != nil {
			batch = append(batch, a)
		}
		if err != nil {
			return batch, err
		}
		there, _ := r.Peek(r.Buffered()) // cannot fail: the bytes are in the buffer
		more = len(batch) < most && bytes.IndexByte(there, '\n') >= 0
	}
	return batch, nil
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

// judge fills in the result. The error is one of encoding it.
func (a *answer) judge(screen Screener) (err error) {
	var r record
	if a.bad == nil && len(bytes.TrimSpace(a.raw)) > 0 {
		r, a.bad = readLine(a.raw)
	}
	if a.bad != nil || r.id == nil {
		return nil
	}
	a.verdict = screen(r.text)
	a.out, err = r.answer(a.verdict)
	return err
}

// read reads one line. A line over the limit is discarded.
func (a *answer) read(r *bufio.Reader) error {
	for {
		piece, err := r.ReadSlice('\n')
		if a.bad == nil {
			a.raw = append(a.raw, bytes.TrimSuffix(piece, []byte("\n"))...)
		}
		if len(a.raw) > maxLine {
			a.raw, a.bad = nil, errTooLong
		}
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}
