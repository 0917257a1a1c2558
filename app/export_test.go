package app

import (
	"context"
	"io"
)

// Invoked is a command that a test runs.
type Invoked struct {
	Context        context.Context
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Version        string
}

// Command runs one.
var Command func(Invoked) int

// invocation is Invoked as tests here write it.
type invocation Invoked

func (in *invocation) run(ctx context.Context) int {
	in.Context = ctx
	return Command(Invoked(*in))
}
