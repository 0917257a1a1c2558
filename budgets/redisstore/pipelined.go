package redisstore

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxSending is how many calls and pipelines are under way at once. With two, one that
// hangs does not hold up the others.
const maxSending = 2

// pipelined is a client of one server that sends the scripts of concurrent callers
// together. Calls that come while others are under way wait and share a pipeline, which is
// one write and one read, here and in the server.
type pipelined struct {
	*redis.Client
	mu      sync.Mutex
	sending int
	next    *batch // the calls that wait, or nil
}

// batch is the calls that share a pipeline.
type batch struct {
	pipe  redis.Pipeliner
	until time.Time // the latest deadline of the calls
	done  chan struct{}
}

// EvalSha runs a script. It returns at the deadline of its context, whatever becomes of the
// calls that it waits for or is sent with.
func (p *pipelined) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	p.mu.Lock()
	if p.sending < maxSending {
		p.sending++
		p.mu.Unlock()
		defer p.sendNext()
		return p.Client.EvalSha(ctx, sha, keys, args...)
	}
	if p.next == nil {
		p.next = &batch{pipe: p.Pipeline(), done: make(chan struct{})}
	}
	b := p.next
	cmd := b.pipe.EvalSha(ctx, sha, keys, args...)
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(p.Options().ReadTimeout)
	}
	if until.After(b.until) {
		b.until = until
	}
	p.mu.Unlock()
	select {
	case <-b.done:
	case <-ctx.Done():
		cmd = redis.NewCmd(ctx) // the other one may still be sent
		cmd.SetErr(ctx.Err())
	}
	return cmd
}

// sendNext follows each call that was sent at once. It sends those that wait.
func (p *pipelined) sendNext() {
	p.mu.Lock()
	waiting := p.next != nil
	if !waiting {
		p.sending--
	}
	p.mu.Unlock()
	if waiting {
		go p.send()
	}
}

// send sends the calls that wait until none does.
func (p *pipelined) send() {
	for {
		runtime.Gosched() // callers that are ready to run join the batch
		p.mu.Lock()
		b := p.next
		p.next = nil
		if b == nil {
			p.sending--
		}
		p.mu.Unlock()
		if b == nil {
			return
		}
		ctx, cancel := context.WithDeadline(context.Background(), b.until)
		_, _ = b.pipe.Exec(ctx) // each call has its own error
		cancel()
		close(b.done)
	}
}
