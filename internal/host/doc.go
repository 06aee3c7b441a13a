// Package host is what the kernel says of itself: whether weir may and should run here, and on which interfaces.
//
//	may it?      Capabilities, LockedMemory       what the process lacks
//	should it?   Bypassed                         rules that forwarded packets would no longer meet:
//
//	      wire ─▶ XDP: weir ──────────────────────────────────────────▶ AF_XDP ─▶ wire
//	               ╎  tc, nft ingress ─▶ prerouting ─▶ forward ─▶ postrouting ─▶ tc, nft egress
//	               ╎                     (raw, nat)    (filter)   (nat, xfrm)    (and shaping)
//
//	on what?     CheckPort                        not a bridge's member, not the operator's own way in
//	how?         Queues, Driver, LinkCounters     what the device has, and what it has counted
//
// Nothing here changes anything. Every function looks at the network namespace of the calling thread, so a goroutine that looks into
// another one must have locked its thread there. Functions may be called from several goroutines at once.
package host
