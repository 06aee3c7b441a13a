package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/bench"
)

// dutFlags say what is measured.
type dutFlags struct {
	DUT     []string `name:"dut" enum:"weir,off,plain,kernel" default:"weir,off,plain,kernel" help:"What to compare: weir, off (weir with --mechanisms off), plain (an AF_XDP loop), kernel (ip_forward)."`
	Variant []string `placeholder:"\"KEY=VALUE …\"" sep:"none" help:"Also compare a weir with these keys set, or flags of run such as --without=feedback; repeat for more."`
}

// duts are the devices asked for, variants last; weirArgs are the arguments of each that is a weir.
func (f *dutFlags) duts(weirArgs []string) ([]bench.DUT, error) {
	var duts []bench.DUT
	for _, name := range f.DUT {
		switch name {
		case "weir":
			duts = append(duts, bench.DUTWeir(name, weirArgs...))
		case "off":
			duts = append(duts, bench.DUTWeir("weir off", append(slices.Clone(weirArgs), "--mechanisms", "off")...).AsControl())
		case "plain":
			duts = append(duts, bench.DUTPlain(name))
		case "kernel":
			duts = append(duts, bench.DUTKernel(name))
		}
	}
	for _, variant := range f.Variant {
		args := slices.Clone(weirArgs)
		keys := strings.Fields(variant)
		control := false
		for _, word := range keys {
			switch {
			case !strings.Contains(word, "="):
				return nil, fmt.Errorf("--variant %q: %q is no key=value and no --flag=value", variant, word)
			case strings.HasPrefix(word, "--"):
				args, control = append(args, word), true
			default:
				args = append(args, "--set", word)
			}
		}
		dut := bench.DUTWeir("weir "+strings.Join(keys, " "), args...)
		if control { // what is left out may be what keeps it from livelock
			dut = dut.AsControl()
		}
		duts = append(duts, dut)
	}
	seen := map[string]bool{}
	for _, d := range duts {
		if seen[d.Name] {
			return nil, fmt.Errorf("%s is compared twice", d.Name)
		}
		seen[d.Name] = true
	}
	if len(duts) == 0 {
		return nil, errors.New("--dut: nothing to measure")
	}
	return duts, nil
}
