package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuseOption is the environment variable that makes this test binary refuse a socket option to itself and to what it executes.
const refuseOption = "WEIR_TEST_REFUSE_SOCKET_OPTION"

// without lets a command of this binary run where the kernel refuses a socket option.
func without(cmd *exec.Cmd, option int) *exec.Cmd {
	cmd.Env = append(os.Environ(), refuseOption+"="+strconv.Itoa(option))
	return cmd
}

// It must be in force before the first thread does anything of the kind.
func init() {
	if text := os.Getenv(refuseOption); text != "" {
		option, err := strconv.Atoi(text)
		if err == nil {
			err = refuseOptionHere(uint32(option))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, refuseOption+":", err)
			os.Exit(1)
		}
	}
}

// refuseOptionHere makes setsockopt(…, SOL_SOCKET, option, …) fail with EPERM on every thread of this process, for good.
func refuseOptionHere(option uint32) error {
	const argument = 16 // offset of the first, low half; 8 bytes each
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 5, K: unix.SYS_SETSOCKOPT},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: argument + 8},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 3, K: unix.SOL_SOCKET},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: argument + 16},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: option},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(program)))
	if errno != 0 {
		return errno
	}
	return nil
}
