package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/policy"
)

func (a *app) controlDiff(context.Context, []string) int { return exitFailed }

func (a *app) warner(config.Replay, *slog.Logger) (func(from, to *policy.Release) []string, error) {
	return nil, errors.New("not yet")
}
