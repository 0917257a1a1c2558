package ring

import (
	"syscall"
	"time"
	"unsafe"
)

// threadTime is the processor time that the calling thread has used, which does not
// grow while the thread waits for a processor. getrusage rounds it to ticks.
func threadTime() time.Duration {
	const threadCPUTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(ts.Nano())
}
