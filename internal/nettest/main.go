package nettest

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Main runs the tests of a package and fails it when they leak: a namespace of this process, a goroutine or a file descriptor. It
// first removes the namespaces of dead processes. Use:
//
//	func TestMain(m *testing.M) { os.Exit(nettest.Main(m)) }
func Main(m interface{ Run() int }) int {
	if err := CleanDead(); err != nil && privileged() == nil {
		fmt.Fprintln(os.Stderr, "nettest: remove namespaces of dead processes:", err)
		return 1
	}
	startPoller()
	startSignals()
	files, goroutines := openFiles(), runtime.NumGoroutine()
	code := m.Run()
	// A failed test may well have left something; its own message is the one to read. Fuzzing keeps goroutines of its own.
	if code != 0 || fuzzing() {
		return code
	}
	if leaks := findLeaks(files, goroutines); len(leaks) > 0 {
		fmt.Fprintln(os.Stderr, "nettest: the tests leaked:\n"+strings.Join(leaks, "\n"))
		return 1
	}
	return 0
}

func fuzzing() bool {
	f := flag.Lookup("test.fuzz")
	return f != nil && f.Value.String() != ""
}

// findLeaks says what there is now that was not there before. What is about to end gets two seconds to do so.
func findLeaks(files map[string]int, goroutines int) []string {
	var leaks []string
	for range 200 {
		if leaks = leaksNow(files, goroutines); len(leaks) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return leaks
}

func leaksNow(files map[string]int, goroutines int) []string {
	var leaks []string
	entries, _ := os.ReadDir(runNetns) // none when there never was a namespace
	for _, e := range entries {
		if pid, ok := ownerOf(e.Name()); ok && pid == os.Getpid() {
			leaks = append(leaks, "namespace "+e.Name())
		}
	}
	for target, num := range openFiles() {
		if more := num - files[target]; more > 0 && !ofTesting(target) {
			leaks = append(leaks, fmt.Sprintf("%d open %s", more, target))
		}
	}
	slices.Sort(leaks)
	if n := runtime.NumGoroutine(); n > goroutines {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		leaks = append(leaks, fmt.Sprintf("%d goroutines, %d before:\n%s", n, goroutines, stacks))
	}
	return leaks
}

// ofTesting reports whether a file is one that a flag of go test names: a CPU profile stays open until the process ends.
func ofTesting(path string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) {
		found = found || strings.HasPrefix(f.Name, "test.") && f.Value.String() != "" && filepath.Base(f.Value.String()) == filepath.Base(path)
	})
	return found
}

// openFiles counts this process's open files by what they are, sockets and pipes without their numbers.
func openFiles() map[string]int {
	files := map[string]int{}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil { // the directory we read
			continue
		}
		if kind, _, ok := strings.Cut(target, ":["); ok && kind != "anon_inode" {
			target = kind
		}
		files[target]++
	}
	return files
}

// startSignals makes package os/signal start its goroutine, which stays, before goroutines are counted.
func startSignals() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	signal.Stop(c)
}

// startPoller makes Go's runtime open the descriptors of its network poller, which stay open, before they are counted.
func startPoller() {
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
}
