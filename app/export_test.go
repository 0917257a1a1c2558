package app

import (
	"context"
	"io"
)

// Invoked is a command line that a test runs.
type Invoked struct {
	Context        context.Context
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Version        string
}

// Command runs a command line.
var Command func(Invoked) int

type invocation Invoked

func (in *invocation) run(ctx context.Context) int {
	in.Context = ctx
	return Command(Invoked(*in))
}
