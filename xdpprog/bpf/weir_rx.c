// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The receive program: the door of a port. For every frame, cheapest first:
 *
 *   1. it belongs to the kernel           XDP_PASS through its class's rate limit, else XDP_DROP    passed[class], limited[class]
 *   2. the worker asked for a lesson      XDP_PASS as a datagram to the worker, once per request    lessons
 *   3. the gate is closed                 XDP_DROP                                                  dropped_gate[lowest reason]
 *      it leaves by an egress that is shut  XDP_DROP                                                dropped_egress
 *      longer than a packet buffer        XDP_DROP                                                  dropped_too_long
 *      no credit is left                  XDP_DROP                                                  dropped_no_credit
 *   4. the queue's AF_XDP socket          XDP_REDIRECT                                              redirected
 *      there is none                      as 1, class no_socket
 *
 * It reads the Ethernet header and the destination address, no more. Whether the IP header makes sense is the engine's business: it
 * drops malformed packets under a reason of their own, and it alone sees the whole packet.
 */
#include "bpf.h"

char __license[] SEC("license") = "Dual BSD/GPL";

/* Go's class.go has the same list with its meanings. */
enum class {
	CLASS_TOO_SHORT,
	CLASS_OTHER_MAC,
	CLASS_NOT_IP,
	CLASS_NEIGHBOUR,
	CLASS_MULTICAST,
	CLASS_BROADCAST,
	CLASS_LOCAL,
	CLASS_NO_SOCKET,
	NUM_CLASSES,
	TRANSIT = NUM_CLASSES, /* not for the kernel: to be forwarded */
};

#define NUM_REASONS 5

/* Bytes of a frame that a lesson overwrites: Ethernet, IPv4 and UDP headers. What follows them becomes the datagram's payload. */
#define LESSON_HEAD 42

/* Bytes of the frames a lesson is made of. A datagram always has a payload; the worker has a buffer for the longest. */
#define LESSON_MIN 44
#define LESSON_MAX 2048

/*
 * One queue's gate, credits and counters, shared with its worker through mmap. Two halves with one writer each, 128 bytes apart because
 * x86's prefetcher fetches cache lines in pairs. The program's half needs no atomic operation: a queue is served by its NAPI, which
 * runs on one CPU at a time (but see shared_writers).
 */
struct door {
	/* Written by the worker. */
	__u64 granted;   /* credits ever granted */
	__u64 shut;      /* bit e: egress e is congested; nearly always 0 */
	__u64 forgotten; /* destinations with tags up to this one are void */
	__u32 gate;      /* reason bits; 0 is open */
	__u32 unlimited; /* not 0: ask for no credit */
	__u32 teach;     /* number of the request << 16 | UDP port that the lesson is for; port 0 asks for none */
	__u32 cpu;       /* the worker's CPU + 1; 0 is no CPU */
	__u32 driving;   /* not 0: the worker is inside a receive poll of its own */
	__u8 pad0[84];

	/* Written by the program. First what most frames touch. */
	__u64 spent; /* credits ever spent */
	__u64 seen;
	__u64 seen_here;   /* of these, on the worker's CPU */
	__u64 seen_driven; /* of these, while the worker was driving */
	__u64 redirected;
	__u64 dropped_no_credit;
	__u64 dropped_egress;
	__u64 dropped_too_long;
	__u64 lessons;
	__u64 dropped_gate[NUM_REASONS];
	__u64 passed[NUM_CLASSES];
	__u64 limited[NUM_CLASSES];
	__u32 taught; /* the last value of teach that was answered */
	__u16 lesson_len; /* bytes of the last lesson's frame */
	__u16 lesson_head[LESSON_HEAD / 2]; /* its first bytes as they were */
	__u8 pad1[96];
};

#define NUM_SLOTS 1024

/*
 * A destination whose egress is known. Its worker empties the slot (tag 0), writes the address, then the tag, which is one that was never
 * used before. Whoever finds the same tag before and after the address has thus read the address that belongs to it.
 */
struct slot {
	__u64 addr[2]; /* as it is on the wire; IPv4: 0 and the address */
	__u64 tag;     /* number of the write << 8 | TAG_IPV6 | egress, numbers beginning at 1 */
	__u64 pad;
};

#define TAG_EGRESS 0x3f
#define TAG_IPV6 0x40

/* One queue's slots, each destination in the one its hash says: written by the queue's worker through mmap, only read here. */
struct destinations {
	struct slot slots[NUM_SLOTS];
};

/*
 * A class's rate limit as a virtual clock (generic cell rate algorithm, ITU-T I.371): every frame let through advances `full` by
 * `interval`; a frame that would take it further than `depth` ahead of now is refused. One word of state, written only for frames
 * let through, so that a flood of refused frames on many CPUs does not fight for the cache line.
 */
struct bucket {
	__u64 full;     /* ns; written by the program */
	__u64 interval; /* ns per frame; written by Go */
	__u64 depth;    /* ns, burst * interval; written by Go */
	__u8 pad[40];
};

/* What all queues of the port share. */
struct port {
	__u64 mac;           /* the port's MAC as load_mac reads it */
	__u32 num_prefixes4; /* prefixes in local4_prefixes: 0 saves the lookup */
	__u32 num_prefixes6;
	__u32 max_len; /* bytes of the longest frame a packet buffer takes; 0 is no limit */
	__u8 pad0[44];
	struct bucket buckets[NUM_CLASSES];
	/* Frames of queues beyond the doors, which have no counters of their own. */
	__u64 beyond_passed;
	__u64 beyond_limited;
	__u8 pad1[48];
};

struct local4_key {
	__u32 addr;
};

struct local6_key {
	__u32 addr[4];
};

struct prefix4_key {
	__u32 len;
	struct local4_key key;
};

struct prefix6_key {
	__u32 len;
	struct local6_key key;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of queues before loading */
	__type(key, __u32);
	__type(value, struct door);
} doors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of queues before loading */
	__type(key, __u32);
	__type(value, struct destinations);
} destinations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); /* set to the number of queues before loading */
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/*
 * The host's own addresses. Keys are all that counts; the value says nothing. Twice the room that SetLocal promises: it adds the new
 * addresses before it removes the old. Not more, because a hash map has a bucket of 16 bytes per possible entry, and every forwarded
 * frame touches one: 128 KiB stay in the cache.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * 4096);
	__type(key, struct local4_key);
	__type(value, __u8);
} local4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * 4096);
	__type(key, struct local6_key);
	__type(value, __u8);
} local6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * 1024);
	__type(key, struct prefix4_key);
	__type(value, __u8);
} local4_prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * 1024);
	__type(key, struct prefix6_key);
	__type(value, __u8);
} local6_prefixes SEC(".maps");

/*
 * Set before loading for generic mode, where a queue has no NAPI of its own: frames of one queue may then be handled on several CPUs at
 * once, and counting needs atomic additions. A constant: the verifier removes the other branch.
 */
const volatile bool shared_writers = false;

static __always_inline void count(__u64 *counter)
{
	if (shared_writers)
		__sync_fetch_and_add(counter, 1);
	else
		*counter += 1;
}

static __always_inline bool admit(struct bucket *b)
{
	__u64 now = bpf_ktime_get_ns();

	/* Another CPU may be admitting a frame of this class at the same time: then look again. Losing four times in a row means that the
	 * class is busy on many CPUs, and one frame more or less is within what a rate limit promises. */
	for (int i = 0; i < 4; i++) {
		__u64 old = READ_ONCE(b->full);
		__u64 full = (old > now ? old : now) + READ_ONCE(b->interval);

		if (full - now > READ_ONCE(b->depth))
			return false;
		if (__sync_val_compare_and_swap(&b->full, old, full) == old)
			return true;
	}
	return false;
}

static __always_inline int to_kernel(struct port *port, struct door *door, __u32 class)
{
	if (admit(&port->buckets[class])) {
		count(&door->passed[class]);
		return XDP_PASS;
	}
	count(&door->limited[class]);
	return XDP_DROP;
}

/* A queue that appeared after Attach. Its frames cannot be forwarded; the kernel gets them as it gets those of a queue without socket. */
static __always_inline int beyond_doors(struct port *port)
{
	if (admit(&port->buckets[CLASS_NO_SOCKET])) {
		__sync_fetch_and_add(&port->beyond_passed, 1);
		return XDP_PASS;
	}
	__sync_fetch_and_add(&port->beyond_limited, 1);
	return XDP_DROP;
}

static __always_inline __u16 load16(const __u8 *p)
{
	return *(const __u16 *)p;
}

static __always_inline void store16(__u8 *p, __u16 v)
{
	*(__u16 *)p = v;
}

static __always_inline __u32 load32(const __u8 *p)
{
	return *(const __u32 *)p;
}

static __always_inline __u64 load64(const __u8 *p)
{
	return *(const __u64 *)p;
}

static __always_inline __u64 load_mac(const __u8 *p)
{
	return load16(p) | (__u64)load16(p + 2) << 16 | (__u64)load16(p + 4) << 32;
}

static __always_inline __u32 classify_group(const __u8 *frame)
{
	return load_mac(frame) == 0xffffffffffff ? CLASS_BROADCAST : CLASS_MULTICAST;
}

static __always_inline bool is_local4(const struct port *port, __u32 addr)
{
	struct prefix4_key key = { .len = 32, .key.addr = addr };

	if (bpf_map_lookup_elem(&local4, &key.key))
		return true;
	return READ_ONCE(port->num_prefixes4) && bpf_map_lookup_elem(&local4_prefixes, &key);
}

static __always_inline bool is_local6(const struct port *port, const __u8 *addr)
{
	struct prefix6_key key = { .len = 128 };

	for (int i = 0; i < 4; i++)
		key.key.addr[i] = load32(addr + 4 * i);
	if (bpf_map_lookup_elem(&local6, &key.key))
		return true;
	return READ_ONCE(port->num_prefixes6) && bpf_map_lookup_elem(&local6_prefixes, &key);
}

static __always_inline __u32 classify4(const struct port *port, const __u8 *frame, __u32 len)
{
	if (len < ETH_HLEN + 20)
		return TRANSIT;

	__u32 dst = load32(frame + ETH_HLEN + 16);

	if (dst == 0xffffffff)
		return CLASS_BROADCAST;
	if ((dst & htonl(0xf0000000)) == htonl(0xe0000000))
		return CLASS_MULTICAST;
	return is_local4(port, dst) ? CLASS_LOCAL : TRANSIT;
}

static __always_inline __u32 classify6(const struct port *port, const __u8 *frame, __u32 len)
{
	if (len < ETH_HLEN + 40)
		return TRANSIT;
	if (frame[ETH_HLEN + 24] == 0xff)
		return CLASS_MULTICAST;
	return is_local6(port, frame + ETH_HLEN + 24) ? CLASS_LOCAL : TRANSIT;
}

/* Neighbour and router discovery never hides behind extension headers (RFC 6980 forbids fragments; none other is used with it). */
static __always_inline bool is_discovery(const __u8 *frame, __u32 len)
{
	if (len < ETH_HLEN + 41 || frame[ETH_HLEN + 6] != IPPROTO_ICMPV6)
		return false;
	return frame[ETH_HLEN + 40] >= 133 && frame[ETH_HLEN + 40] <= 137;
}

/* classify needs this much of a frame, if the frame has it. */
#define HEAD (ETH_HLEN + 41)

/* classify says which class a frame belongs to, or TRANSIT. len is how many bytes of the frame may be read, at least an Ethernet header. */
static __always_inline __u32 classify(const struct port *port, const __u8 *frame, __u32 len)
{
	bool group = frame[0] & 1;
	__u32 class;

	if (!group && load_mac(frame) != READ_ONCE(port->mac))
		return CLASS_OTHER_MAC;

	switch (load16(frame + 12)) {
	case htons(ETH_P_ARP):
		return CLASS_NEIGHBOUR;
	case htons(ETH_P_IP):
		return group ? classify_group(frame) : classify4(port, frame, len);
	case htons(ETH_P_IPV6):
		class = group ? classify_group(frame) : classify6(port, frame, len);
		return class != TRANSIT && is_discovery(frame, len) ? CLASS_NEIGHBOUR : class;
	}
	return CLASS_NOT_IP;
}

/*
 * The head of a frame whose first bytes do not all lie in the linear part of the buffer: short ones, and those of a driver that splits
 * headers. The leading two bytes put IP addresses on the boundaries that loads from the stack must keep.
 */
struct head {
	__u16 align;
	__u8 frame[HEAD];
} __attribute__((aligned(8)));

/* copy_head returns how many bytes of the head the frame has, 0 if it is shorter than an Ethernet header. */
static __always_inline __u32 copy_head(struct xdp_md *ctx, struct head *head)
{
	__u64 len = bpf_xdp_get_buff_len(ctx);

	if (len < ETH_HLEN)
		return 0;
	if (len > HEAD)
		len = HEAD;
	return bpf_xdp_load_bytes(ctx, 0, head->frame, len) ? 0 : len;
}

static __always_inline __u32 classify_short(struct xdp_md *ctx, const struct port *port)
{
	struct head head = {};
	__u32 len = copy_head(ctx, &head);

	return len ? classify(port, head.frame, len) : CLASS_TOO_SHORT;
}

/*
 * teach answers a request: it turns a frame to be forwarded into a datagram 0.0.0.0:0 -> 255.255.255.255:port, which the kernel gives to
 * the worker's socket. That socket thereby learns which NAPI serves the queue. Nothing is lost: the datagram's payload is the frame from
 * byte 42, and the bytes before are kept in the door. MAC addresses stay, because the frame is for this port's already. The sender may
 * have left the frame's checksum to be completed; the kernel does not look at it, because this datagram has none.
 *
 * The UDP checksum is 0 and the IPv4 one is the sum of 0x4500, the length, 0x0111 (TTL 1, UDP), and 0xffff twice, which add nothing.
 * TTL 1: whatever goes wrong, it leaves the host by no other port.
 */
static __always_inline bool teach(struct xdp_md *ctx, const struct port *port, struct door *door, __u32 request)
{
	__u8 *frame = (__u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	__u32 taught = READ_ONCE(door->taught);
	__u32 max_len = READ_ONCE(port->max_len);
	__u64 len = bpf_xdp_get_buff_len(ctx);

	if (request == taught || frame + LESSON_HEAD > end || len < LESSON_MIN || len > LESSON_MAX || (max_len && len > max_len))
		return false;
	if (!shared_writers)
		door->taught = request;
	else if (__sync_val_compare_and_swap(&door->taught, taught, request) != taught)
		return false; /* another CPU has just answered it */

	door->lesson_len = len;
	for (int i = 0; i < LESSON_HEAD / 2; i++)
		door->lesson_head[i] = load16(frame + 2 * i);

	store16(frame + 12, htons(ETH_P_IP));
	store16(frame + 14, htons(0x4500));
	store16(frame + 16, htons((__u16)(len - ETH_HLEN)));
	store16(frame + 18, 0);
	store16(frame + 20, 0);
	store16(frame + 22, htons(0x0100 | IPPROTO_UDP));
	store16(frame + 24, htons((__u16)~(0x4500 + 0x0100 + IPPROTO_UDP + len - ETH_HLEN)));
	store16(frame + 26, 0);
	store16(frame + 28, 0);
	store16(frame + 30, 0xffff);
	store16(frame + 32, 0xffff);
	store16(frame + 34, 0);
	store16(frame + 36, htons((__u16)request));
	store16(frame + 38, htons((__u16)(len - ETH_HLEN - 20)));
	store16(frame + 40, 0);
	count(&door->lessons);
	return true;
}

/*
 * Go's destinations.go has the same hash. Among multipliers without pattern these two spread neighbours (hosts of a subnet, subnets of a
 * network) best; a test on the Go side says how well.
 */
static __always_inline __u64 hash(__u64 high, __u64 low)
{
	__u64 h = high * 0xff51afd7ed558ccd + low;

	return (h ^ h >> 32) * 0xa0761d6478bd642f >> 54; /* 10 bits: NUM_SLOTS */
}

/* is_shut looks for a frame's destination among those known and says whether its egress is in shut. len as for classify. */
static __always_inline bool is_shut(const struct door *door, const struct slot *slots, __u64 shut, const __u8 *frame, __u32 len)
{
	__u64 high = 0, low, family = 0;

	/* Of what is to be forwarded, nothing but IP is left. */
	if (load16(frame + 12) == htons(ETH_P_IP)) {
		if (len < ETH_HLEN + 20)
			return false;
		low = load32(frame + ETH_HLEN + 16);
	} else {
		if (len < ETH_HLEN + 40)
			return false;
		high = load64(frame + ETH_HLEN + 24);
		low = load64(frame + ETH_HLEN + 32);
		family = TAG_IPV6;
	}

	__u64 i = hash(high, low);
	__u64 tag = READ_ONCE(slots[i].tag);

	if (tag <= READ_ONCE(door->forgotten) || (tag & TAG_IPV6) != family || !(shut >> (tag & TAG_EGRESS) & 1))
		return false;
	i = (i + after(tag)) & (NUM_SLOTS - 1);

	__u64 slot_high = READ_ONCE(slots[i].addr[0]), slot_low = READ_ONCE(slots[i].addr[1]);

	if (slot_high != high || slot_low != low)
		return false;
	i = (i + after(slot_high | slot_low)) & (NUM_SLOTS - 1);
	return READ_ONCE(slots[i].tag) == tag;
}

/* is_egress_shut is not inlined: what is needed for congested egresses alone stays out of the way of all other frames. */
static __noinline bool is_egress_shut(struct xdp_md *ctx, const struct door *door, __u32 queue, __u64 shut)
{
	const __u8 *frame = (const __u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	struct head head = {};
	struct destinations *d = bpf_map_lookup_elem(&destinations, &queue);

	if (!d)
		return false; /* cannot be: there are as many as doors */
	if (frame + HEAD <= end)
		return is_shut(door, d->slots, shut, frame, HEAD);
	return is_shut(door, d->slots, shut, head.frame, copy_head(ctx, &head));
}

static __always_inline int forward(struct xdp_md *ctx, struct port *port, struct door *door, __u32 queue)
{
	__u32 request = READ_ONCE(door->teach);
	__u32 gate = READ_ONCE(door->gate);

	/* Before gate and credits: a worker that owns nothing yet must learn while its door is shut, too. */
	if (unlikely((__u16)request) && teach(ctx, port, door, request))
		return XDP_PASS;

	if (gate) {
		__u32 reason = 0;

		while (reason < NUM_REASONS - 1 && !(gate >> reason & 1))
			reason++;
		count(&door->dropped_gate[reason]);
		return XDP_DROP;
	}

	__u64 shut = READ_ONCE(door->shut);

	if (unlikely(shut) && is_egress_shut(ctx, door, queue, shut)) {
		count(&door->dropped_egress);
		return XDP_DROP;
	}

	/* The socket would drop it, after a credit was spent on it that nobody gives back. */
	__u32 max_len = READ_ONCE(port->max_len);

	if (max_len && bpf_xdp_get_buff_len(ctx) > max_len) {
		count(&door->dropped_too_long);
		return XDP_DROP;
	}

	bool limited = !READ_ONCE(door->unlimited);

	if (limited && READ_ONCE(door->spent) >= READ_ONCE(door->granted)) {
		count(&door->dropped_no_credit);
		return XDP_DROP;
	}

	/* The map is looked up in this very call, and it answers with the flags (here 0) when there is no socket. */
	if (bpf_redirect_map(&sockets, queue, 0) != XDP_REDIRECT)
		return to_kernel(port, door, CLASS_NO_SOCKET);

	if (limited)
		count(&door->spent);
	count(&door->redirected);
	return XDP_REDIRECT;
}

/* Set by the driver, or by a veth's peer: a VLAN tag kept beside the frame, which then looks untagged. */
static __always_inline bool has_tag_beside(struct xdp_md *ctx)
{
	__u16 proto, tci;

	return !bpf_xdp_metadata_rx_vlan_tag(ctx, &proto, &tci);
}

static __always_inline int receive(struct xdp_md *ctx, const bool ask_for_tag)
{
	const __u8 *frame = (const __u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	__u32 queue = ctx->rx_queue_index;
	__u32 zero = 0;
	__u32 class;

	struct port *port = bpf_map_lookup_elem(&ports, &zero);
	struct door *door = bpf_map_lookup_elem(&doors, &queue);

	if (!port)
		return XDP_DROP; /* cannot be: the map has an entry 0 */
	if (!door)
		return beyond_doors(port);
	count(&door->seen);
	if (bpf_get_smp_processor_id() + 1 == READ_ONCE(door->cpu)) {
		count(&door->seen_here);
		if (READ_ONCE(door->driving))
			count(&door->seen_driven);
	}

	if (frame + HEAD <= end)
		class = classify(port, frame, HEAD);
	else
		class = classify_short(ctx, port);

	if (ask_for_tag && class > CLASS_OTHER_MAC && has_tag_beside(ctx))
		class = CLASS_NOT_IP;

	if (class < NUM_CLASSES)
		return to_kernel(port, door, class);
	return forward(ctx, port, door, queue);
}

/*
 * Two programs, of which Attach loads one. The first needs Linux 6.8 and is bound to its device when it is loaded, because asking the
 * driver for a tag is a call into the driver. The second is for generic mode, for older kernels, and for tests: a bound program cannot
 * be run by BPF_PROG_RUN.
 */
SEC("xdp.frags")
int weir_rx(struct xdp_md *ctx)
{
	return receive(ctx, true);
}

SEC("xdp.frags")
int weir_rx_unbound(struct xdp_md *ctx)
{
	return receive(ctx, false);
}
