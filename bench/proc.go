package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks are how many there are in a second of CPU time in /proc: fixed in the
// kernel's interface.
const ticks = 100

// cpuOf is the CPU time that a process used, 0 where /proc does not tell.
func cpuOf(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name may hold anything
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / ticks
}

// rss is a process's resident memory in KiB, and peak the most that it ever had.
func rss(pid int) int64  { return statusOf(pid, "VmRSS:") }
func peak(pid int) int64 { return statusOf(pid, "VmHWM:") }

// statusOf is a number of a process's status, 0 where /proc does not tell.
func statusOf(pid int, name string) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}
