package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// value reads and prints one key. parse leaves the value as it was when it fails; its error says what the value must be.
// What String prints, parse accepts, unless the value is invalid: Validate rests on that.
type value interface {
	parse(text string) error
	String() string
}

// choice is one of a few words.
type choice[T ~string] struct {
	p   *T
	all []T
}

func (v choice[T]) String() string { return string(*v.p) }

func (v choice[T]) parse(text string) error {
	if !slices.Contains(v.all, T(text)) {
		words := make([]string, len(v.all))
		for i, w := range v.all {
			words[i] = string(w)
		}
		return fmt.Errorf("must be %s", orList(words))
	}
	*v.p = T(text)
	return nil
}

// orList is "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// boolean is true or false.
type boolean struct{ p *bool }

func (v boolean) String() string { return strconv.FormatBool(*v.p) }

func (v boolean) parse(text string) error {
	switch text {
	case "true":
		*v.p = true
	case "false":
		*v.p = false
	default:
		return errors.New("must be true or false")
	}
	return nil
}

// toggle switches a section off, or on again with the values it has.
type toggle struct{ off *bool }

func (v toggle) String() string {
	if *v.off {
		return "off"
	}
	return "on"
}

func (v toggle) parse(text string) error {
	switch text {
	case "on":
		*v.off = false
	case "off":
		*v.off = true
	default:
		return errors.New("must be a mapping, or off")
	}
	return nil
}

// own is a value of a port that is another key's as long as it is nil. It is never changed in place, so copies may share it.
type own[T any] struct {
	p  **T
	of func(*T) value
}

func (v own[T]) String() string {
	if *v.p == nil {
		return ""
	}
	return v.of(*v.p).String()
}

func (v own[T]) parse(text string) error {
	fresh := new(T)
	if err := v.of(fresh).parse(text); err != nil {
		return err
	}
	*v.p = fresh
	return nil
}

// nice is a nice value.
type nice struct{ p *int }

func (v nice) String() string { return strconv.Itoa(*v.p) }

func (v nice) parse(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < -20 || n > 19 {
		return errors.New("must be a nice value, from -20 to 19")
	}
	*v.p = n
	return nil
}

// percent is a share with its sign.
type percent struct {
	p      *Percent
	lowest bound
}

// bound says whether zero belongs to a range.
type bound bool

const (
	fromZero  bound = true
	aboveZero bound = false
)

func (v percent) String() string { return strconv.FormatFloat(float64(*v.p), 'f', -1, 64) + "%" }

func (v percent) parse(text string) error {
	digits, sign := strings.CutSuffix(text, "%")
	// ParseFloat would also take exponents, hexadecimal and names.
	plain := strings.Trim(digits, "0123456789.") == ""
	f, err := strconv.ParseFloat(digits, 64)
	switch {
	case !sign || !plain || err != nil:
		return errors.New("must be a percentage such as 75%")
	case v.lowest == aboveZero && (f <= 0 || f > 100):
		return errors.New("must be above 0% and at most 100%")
	case f > 100:
		return errors.New("must be from 0% to 100%")
	}
	*v.p = Percent(f)
	return nil
}

// duration is a time with its unit, between two bounds.
type duration struct {
	p        *time.Duration
	min, max time.Duration
}

func (v duration) String() string { return v.p.String() }

func (v duration) parse(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("must be a duration with its unit, such as 1ms")
	case d < v.min || d > v.max:
		return fmt.Errorf("must be from %v to %v", v.min, v.max)
	}
	*v.p = d
	return nil
}

// quota is a number of packets, or how to find one.
type quota struct{ p *Quota }

// maxQuota bounds a turn: more packets than any ring holds. For no bound at all there is inf.
const maxQuota = 1 << 16

func (v quota) String() string { return v.p.String() }

func (v quota) parse(text string) error {
	switch text {
	case "auto":
		*v.p = QuotaAuto
		return nil
	case "inf":
		*v.p = QuotaInf
		return nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return errors.New("must be a number of packets, or auto, or inf")
	case n < 1:
		return errors.New("must be at least 1 packet, or auto, or inf")
	case n > maxQuota:
		return fmt.Errorf("must be at most %d packets, or auto, or inf", maxQuota)
	}
	*v.p = Quota(n)
	return nil
}

// cpus is auto or a list of CPU numbers, with or without brackets.
type cpus struct{ p *[]int }

// maxCPU is the largest number the kernel's CPU masks can hold.
const maxCPU = 8191

func (v cpus) String() string {
	if len(*v.p) == 0 {
		return "auto"
	}
	text := make([]string, len(*v.p))
	for i, n := range *v.p {
		text[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(text, ", ") + "]"
}

func (v cpus) parse(text string) error {
	if text == "auto" {
		*v.p = nil
		return nil
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return errCPUs
		}
	}
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		switch {
		case err != nil:
			return errCPUs
		case n < 0 || n > maxCPU:
			return fmt.Errorf("must hold CPU numbers from 0 to %d", maxCPU)
		case slices.Contains(list, n):
			return fmt.Errorf("must not hold CPU %d twice", n)
		}
		list = append(list, n)
	}
	*v.p = list
	return nil
}

var errCPUs = errors.New("must be auto, or a list of CPU numbers such as [1, 2]")

// frames is the number of frames of a UMEM.
type frames struct{ p *int }

// maxFrames keeps the byte size of a UMEM of the largest frames at 16 GiB.
const maxFrames = 1 << 22

func (v frames) String() string {
	if *v.p == 0 {
		return "auto"
	}
	return strconv.Itoa(*v.p)
}

func (v frames) parse(text string) error {
	if text == "auto" {
		*v.p = 0
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 64 || n > maxFrames || n%64 != 0 {
		return fmt.Errorf("must be auto, or a multiple of 64 from 64 to %d", maxFrames)
	}
	*v.p = n
	return nil
}

// fillDepth is a bound of how many frames are lent to the kernel for receiving.
type fillDepth struct{ p *int }

func (v fillDepth) String() string { return strconv.Itoa(*v.p) }

func (v fillDepth) parse(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxRing {
		return fmt.Errorf("must be a number of frames, from 1 to %d", maxRing)
	}
	*v.p = n
	return nil
}

// frameSize is the size of one frame in bytes.
type frameSize struct{ p *int }

func (v frameSize) String() string { return strconv.Itoa(*v.p) }

func (v frameSize) parse(text string) error {
	switch text {
	case "2048":
		*v.p = 2048
	case "4096":
		*v.p = 4096
	default:
		return errors.New("must be 2048 or 4096 bytes")
	}
	return nil
}

// ringSize is the number of descriptors of a ring.
type ringSize struct{ p *int }

// The kernel takes any power of two. Below 64 not one poll of a NAPI fits; above 65536 a ring only hides delay.
const (
	minRing = 64
	maxRing = 1 << 16
)

func (v ringSize) String() string { return strconv.Itoa(*v.p) }

func (v ringSize) parse(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < minRing || n > maxRing || n&(n-1) != 0 {
		return fmt.Errorf("must be a power of two, from %d to %d descriptors", minRing, maxRing)
	}
	*v.p = n
	return nil
}

// listenAddress is host:port, or off.
type listenAddress struct{ p *string }

func (v listenAddress) String() string {
	if *v.p == "" {
		return "off"
	}
	return *v.p
}

func (v listenAddress) parse(text string) error {
	if text == "off" {
		*v.p = ""
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsFunc(host, unprintable) {
		return errors.New("must be host:port such as 127.0.0.1:9473, or off")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("must end in a port from 0 to 65535, or be off")
	}
	*v.p = text
	return nil
}

// socketPath is a path for a Unix socket, or auto.
type socketPath struct{ p *string }

// maxSocketPath is the room in struct sockaddr_un, less the closing zero.
const maxSocketPath = 107

func (v socketPath) String() string {
	if *v.p == "" {
		return "auto"
	}
	return *v.p
}

func (v socketPath) parse(text string) error {
	switch {
	case text == "auto":
		*v.p = ""
		return nil
	case !filepath.IsAbs(text) || strings.ContainsFunc(text, unprintable):
		return errors.New("must be an absolute path, or auto")
	case len(text) > maxSocketPath:
		return fmt.Errorf("must be at most %d bytes long", maxSocketPath)
	}
	*v.p = text
	return nil
}

// checkName refuses what the kernel (dev_valid_name, net/core/dev.c) refuses as a name, and what cannot be printed.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > 15:
		return errors.New("must be an interface name of 1 to 15 bytes")
	case name == "." || name == ".." || strings.ContainsAny(name, "/: ") || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unprintable):
		return errors.New("must be an interface name: printable, without slash, colon or space")
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
