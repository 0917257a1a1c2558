package main

import (
	"context"
	"time"

	api "github.com/memproxy/memproxy/review"
)

// reviewing is a command of reviewers: a client of the API on the admin listener
// of a running sidecar.
func reviewing(noun string) func(*app, context.Context, []string) int {
	return func(a *app, ctx context.Context, args []string) int {
		return api.CLI{Stdout: a.Stdout, Stderr: a.Stderr, Getenv: a.Getenv, Clock: time.Now}.Main(ctx, noun, args)
	}
}
