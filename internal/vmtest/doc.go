// Package vmtest boots Linux under QEMU with emulated NICs, so that weir runs on the drivers of real ones: their rings, interrupts, queues
// and offloads. It needs neither a NIC nor KVM. It proves behaviour, not speed.
//
//	          this machine                     │ guest: Linux 6.12 or 6.1 from Debian, in QEMU    │       this machine
//	┌──────────────────────┐                   │  ┌────────────────────────────────────────────┐  │  ┌────────────────────┐
//	│ namespace src     s0 ╪══ tap ══════════════╪ <card>0         weir run         <card>1 ╪═════ tap ═╪ d0     namespace dst │
//	└──────────────────────┘                   │  └────────────────────┬───────────────────────┘  │  └────────────────────┘
//	          go test ── Agent ── socket ── virtual serial port ── Serve
//
// `./test vm` gets QEMU and the kernels and runs a stated part of the matrix in a few minutes, `./test vm --full` all of it:
//
//	kernel        6.12, 6.1
//	CPUs          1, 2
//	virtio_net    1, 2 and 4 pairs of queues; more receive than transmit queues; with and without guest offloads; offloads that the
//	              driver cannot switch off, so that it refuses XDP
//	vmxnet3       large receive offload on, as it comes; native XDP from 6.12 on
//	e1000e        generic only; 6.12
//	mode          auto, copy, generic, zerocopy
//
// The tests have the build tag vm; go test without it runs only those of this package's own parts.
//
// # A guest
//
// Boot unpacks no disk: the root file system is an archive made for the boot, with weir in /bin, the agent as /init, busybox, a shell, ip,
// tc, ethtool, and the modules of the NICs, of VLANs (8021q), VRFs, dummies and veths, which are loaded. A boot takes 5 to 10 s on an idle
// machine, so everything that can be is tested in one boot: the agent starts any number of processes in the guest, side by side, passes
// signals on, and streams what they print.
//
//	out, err := guest.Run(ctx, "ethtool", "-S", "v0")           // to its end
//	p, err := guest.Start(vmtest.Command{Argv: ...})            // then p.WaitFor, p.Signal, p.Wait, p.Stdout
//	err = guest.Upload(ctx, "/tmp/tool", 0o755, program)        // a Go program built with CGO_ENABLED=0, a BPF object
//
// Programs of busybox that start others (timeout, unshare, xargs) prefer busybox's own: name others by their path there, as in
// unshare -n /bin/sh.
//
// A guest whose kernel panics ends, and every call that waits for it returns ErrGone. What its console printed is in Console.
//
// # How to add a check
//
// Of what every weir does on every driver: a method of router in scenario_test.go, called from scenario with r.check. It gets a running
// weir (r), its hosts (r.seg.src, r.seg.dst), its ports (r.seg.in, r.seg.out), r.stats and r.atRest for counters, r.lab.run and
// r.lab.shell for commands in the guest. When it fails, counters, links, neighbours and interrupts are logged.
//
// Of a driver, queue count, kernel or mode: a line in guests in guests_test.go; a NIC of another model needs its module in drivers.
//
// Of something of its own: a test function that boots what it needs and forwards with what it sets,
//
//	l := boot(t, guest{kernel: "6.12", cpus: 1, cards: []card{virtioOne}, native: []string{"p"}})
//	seg := l.use(t, "p")
//	r := l.start(t, seg, settings{mode: "copy", args: []string{"--set", "poller.mode=poll"}})
//
// It costs a boot in every run: prefer a line in guests. Under emulation nothing has a speed: wait for events with stepTimeout, and keep
// traffic in windows as exchange does, below 5,000 packets a second. Judge no rate.
package vmtest
