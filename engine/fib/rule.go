package fib

import "fmt"

// Rule is a policy rule (ip rule) that is not as the kernel starts with, or one of those that is missing.
type Rule struct {
	IPv6     bool
	Priority uint32
	Table    uint32
	Missing  bool // one of the default rules was deleted
}

// String describes the rule as `ip rule` would name it.
func (r Rule) String() string {
	family, missing := "IPv4", ""
	if r.IPv6 {
		family = "IPv6"
	}
	if r.Missing {
		missing = ", missing"
	}
	return fmt.Sprintf("%s rule %d (table %d%s)", family, r.Priority, r.Table, missing)
}
