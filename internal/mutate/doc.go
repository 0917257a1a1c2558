// Command mutate puts small faults into the program, one at a time, and runs
// the tests that say they prove the requirement which the fault breaks. A fault
// that none of them notices is a sentence that nobody tests.
//
//	go run ./internal/mutate                  # all of them
//	go run ./internal/mutate -share 3/12      # every twelfth, from the third on
//	go run ./internal/mutate -only SYN-3      # those of one requirement
//
// The faults are written down in internal/mutate/faults, a file for each area,
// and not generated: a generated fault is mostly one that changes nothing. Each
// names a declaration, and text inside it whatever its white space, so that code
// that moves to another file or is formatted anew keeps its faults. The
// tree is never changed, the compiler is given the changed file in the place of
// the real one (go help build, -overlay).
//
// It exits with 1 if a fault survives, can no longer be put in, or does not
// compile, and if the tests fail without any.
package main
