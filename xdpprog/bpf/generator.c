// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The lab's generator. BPF_PROG_RUN with live frames runs it over and over, in one system call for the whole trial; each run makes one
 * frame and redirects it to a device, or drops it because the next frame is not due yet.
 *
 * The frame it is given is one of a batch of pages that come back as the receivers left them: forwarded, rewritten, with another MAC.
 * Therefore it writes everything but the zeros at the end, every time.
 */
#include "bpf.h"
#include "lab.h"

char __license[] SEC("license") = "Dual BSD/GPL";

/* Times are ns since the run's first frame with 16 bits of fraction: 78 hours fit, and at 1 Mpps the rate is right to 2 in 10^8. */
#define FRACTION 16

/*
 * A generator that was descheduled may catch up by this many frames at once, no more: a longer burst would overflow the receiver's ring
 * (256 entries on veth) and look like loss in the device under test. What it may not catch up is counted as skipped, and made up later: one
 * frame more for every MAKE_UP that are sent on time.
 */
#define MAX_DEBT 32
#define MAKE_UP 8

/* Prepared by Go before a run, but for stop. */
struct plan {
	__u64 step;     /* time between frames; 0: as fast as it goes */
	__u64 count;    /* frames to send */
	__u64 duration; /* ns */
	__u32 num_flows;
	__u32 num_destinations;
	__u32 ipv6;
	__u32 src_port;
	__u32 dst;     /* the destination address's last 32 bits */
	__u32 ip_sum;  /* of the IPv4 header but dst, not folded */
	__u32 udp_sum; /* of pseudo-header, UDP header and stamp, but src_port, dst, sequence number and time; not folded */
	__u32 stop;    /* set while it runs: end now */
	__u8 header[LAB_STAMP6 + 2]; /* Ethernet to UDP, then zeros: it is copied in words of 8 bytes */
};

/* Why the program is done. */
enum done {
	RUNNING,
	ENDED,       /* count, duration or stop */
	NO_DEVICE,   /* the device went away */
	FRAME_SHORT, /* cannot be: Go checks the size */
};

/* Written by the program alone, on the CPU that runs it. */
struct progress {
	__u64 start; /* CLOCK_MONOTONIC of the first frame, ns; 0 before */
	__u64 next;  /* when the next frame is due */
	__u64 sent;
	__u64 skipped; /* and not made up yet */
	__u64 elapsed; /* ns since start, when the end was noticed */
	__u32 flow;
	__u32 destination;
	__u32 done; /* enum done: all further runs do nothing */
	__u32 on_time; /* frames, since the last one that was made up */
};

struct generator {
	struct plan plan;
	__u8 pad0[8];
	struct progress progress;
	__u8 pad1[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct generator);
} generators SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

static __always_inline __u32 sum32(__u32 v)
{
	return (v >> 16) + (v & 0xffff);
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = sum32(sum);
	sum = sum32(sum);
	return ~sum;
}

static __always_inline void put16(__u8 *p, __u16 v)
{
	*(__u16 *)p = htons(v);
}

static __always_inline void put32(__u8 *p, __u32 v)
{
	*(__u32 *)p = htonl(v);
}

static __always_inline void put64(__u8 *p, __u64 v)
{
	*(__u64 *)p = htonll(v);
}

static __always_inline void copy64(__u8 *to, const __u8 *from, int words)
{
	for (int i = 0; i < words; i++)
		((__u64 *)to)[i] = ((const __u64 *)from)[i];
}

static __always_inline void write_stamp(__u8 *stamp, __u32 sequence, __u64 due)
{
	put32(stamp, LAB_MAGIC);
	put32(stamp + 4, sequence);
	put64(stamp + 8, due);
}

/* write_frame writes the next frame of the plan. False: the buffer is too small. */
static __always_inline bool write_frame(const struct plan *plan, const struct progress *progress, __u8 *frame, const __u8 *end, __u64 due)
{
	__u32 src_port = plan->src_port + progress->flow;
	__u32 dst = plan->dst + progress->destination;
	__u32 sequence = progress->sent;
	__u32 udp_sum = plan->udp_sum + src_port + sum32(dst) + sum32(sequence) + sum32(due >> 32) + sum32(due);
	__u16 checksum = fold(udp_sum);

	if (checksum == 0)
		checksum = 0xffff; /* 0 says "no checksum" */

	if (plan->ipv6) {
		if (frame + LAB_STAMP6 + LAB_STAMP_LEN > end)
			return false;
		copy64(frame, plan->header, 8);
		put32(frame + ETH_HLEN + 36, dst);
		put16(frame + LAB_STAMP6 - 8, src_port);
		put16(frame + LAB_STAMP6 - 2, checksum);
		write_stamp(frame + LAB_STAMP6, sequence, due);
		return true;
	}
	if (frame + LAB_STAMP4 + LAB_STAMP_LEN > end)
		return false;
	copy64(frame, plan->header, 6);
	put16(frame + ETH_HLEN + 10, fold(plan->ip_sum + sum32(dst)));
	put32(frame + ETH_HLEN + 16, dst);
	put16(frame + LAB_STAMP4 - 8, src_port);
	put16(frame + LAB_STAMP4 - 2, checksum);
	write_stamp(frame + LAB_STAMP4, sequence, due);
	return true;
}

static __always_inline int finish(struct progress *progress, __u64 elapsed, enum done done)
{
	progress->elapsed = elapsed;
	progress->done = done;
	return XDP_DROP;
}

SEC("xdp")
int weir_generator(struct xdp_md *ctx)
{
	__u8 *frame = (__u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	__u32 zero = 0;
	struct generator *g = bpf_map_lookup_elem(&generators, &zero);

	if (!g || g->progress.done)
		return XDP_DROP;

	const struct plan *plan = &g->plan;
	struct progress *progress = &g->progress;
	__u64 now = bpf_ktime_get_ns();

	if (!progress->start)
		progress->start = now;

	__u64 elapsed = now - progress->start;

	if (progress->sent >= plan->count || elapsed >= plan->duration || READ_ONCE(plan->stop))
		return finish(progress, elapsed, ENDED);

	__u64 due = now;

	if (plan->step) {
		__u64 at = elapsed << FRACTION;

		if (at < progress->next)
			return XDP_DROP;

		__u64 debt = at - progress->next;

		if (debt > MAX_DEBT * plan->step) {
			__u64 skip = (debt - MAX_DEBT * plan->step) / plan->step;

			progress->skipped += skip;
			progress->next += skip * plan->step;
		} else if (progress->skipped && debt < plan->step && ++progress->on_time > MAKE_UP) {
			progress->on_time = 0;
			progress->skipped--;
			progress->next -= plan->step;
		}
		due = progress->start + (progress->next >> FRACTION);
	}

	if (!write_frame(plan, progress, frame, end, due))
		return finish(progress, elapsed, FRAME_SHORT);
	if (bpf_redirect_map(&devices, 0, 0) != XDP_REDIRECT)
		return finish(progress, elapsed, NO_DEVICE);

	progress->sent++;
	progress->next += plan->step;
	if (++progress->flow >= plan->num_flows)
		progress->flow = 0;
	if (++progress->destination >= plan->num_destinations)
		progress->destination = 0;
	return XDP_REDIRECT;
}
