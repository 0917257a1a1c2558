package hunt

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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
	// A batch is what one worker takes at once: enough to hide the cost of
	// handing it over, little enough to keep all of them busy.
	batchLines = 128
	batchBytes = 256 << 10
)

// batch is a stretch of input and, when done is closed, what came of it.
type batch struct {
	first int64 // number of its first line, from 1
	lines []line
	done  chan struct{}

	out    bytes.Buffer
	bad    bytes.Buffer
	result Result
	err    error
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
	// Each batch goes to a worker and, in order, to the writer. The channel is
	// short, so that a slow writer stops the reader.
	order := make(chan *batch, 2*workers)
	g.Go(func() error {
		defer close(order)
		return readBatches(ctx, in, func(b *batch) error {
			select {
			case order <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				defer close(b.done)
				b.screen(o.Screen)
				return nil
			})
			return nil
		})
	})
	var total Result
	count := o.Progress.Counting()
	g.Go(func() error {
		for b := range order {
			select {
			case <-b.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if b.err != nil {
				return b.err
			}
			if _, err := o.Errors.Write(b.bad.Bytes()); err != nil {
				return fmt.Errorf("hunt: telling of bad lines: %w", err)
			}
			if _, err := out.Write(b.out.Bytes()); err != nil {
				return fmt.Errorf("hunt: writing: %w", err)
			}
			total.add(b.result)
			count(len(b.lines))
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

func (r *Result) add(o Result) {
	r.Allow += o.Allow
	r.Amend += o.Amend
	r.Hold += o.Hold
	r.Deny += o.Deny
	r.Bad += o.Bad
}

func (b *batch) screen(screen Screener) {
	for i, l := range b.lines {
		if !l.long && len(bytes.TrimSpace(l.raw)) == 0 {
			continue
		}
		r, err := record{}, errTooLong
		if !l.long {
			r, err = readLine(l.raw)
		}
		if err != nil {
			b.result.Bad++
			fmt.Fprintf(&b.bad, "line %d: %v\n", b.first+int64(i), err)
			continue
		}
		v := screen(r.text)
		b.result.Counts.add(v.Verdict)
		if b.err = writeLine(&b.out, r, v); b.err != nil {
			return
		}
	}
	for i := range b.lines {
		b.lines[i].raw = nil
	}
}

func readBatches(ctx context.Context, in io.Reader, hand func(*batch) error) error {
	r := bufio.NewReaderSize(in, 64<<10)
	b, size, number := &batch{first: 1, done: make(chan struct{})}, 0, int64(0)
	flush := func() error {
		if len(b.lines) == 0 {
			return nil
		}
		err := hand(b)
		b, size = &batch{first: number + 1, done: make(chan struct{})}, 0
		return err
	}
	for ctx.Err() == nil {
		l, err := readOne(r)
		if err == nil || len(l.raw) > 0 || l.long {
			number++
			b.lines = append(b.lines, l)
			size += len(l.raw)
		}
		if err == io.EOF {
			return flush()
		}
		if err != nil {
			return errors.Join(flush(), fmt.Errorf("hunt: reading: %w", err))
		}
		// With nothing more at hand a batch goes at once, so that a caller who
		// writes line by line gets answers line by line.
		if len(b.lines) == batchLines || size >= batchBytes || r.Buffered() == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
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
