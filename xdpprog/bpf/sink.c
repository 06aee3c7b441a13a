// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The lab's sink: counts the generator's frames and drops them; everything else passes. weir_sink_tcx suits frames that arrive as socket
 * buffers, weir_sink_xdp those that arrive as XDP frames.
 */
#include "bpf.h"
#include "lab.h"

char __license[] SEC("license") = "Dual BSD/GPL";

struct total {
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct total);
} totals SEC(".maps");

static __always_inline void count(__u64 bytes)
{
	__u32 zero = 0;
	struct total *total = bpf_map_lookup_elem(&totals, &zero);

	if (!total)
		return; /* cannot be: the map has an entry 0 */
	total->packets++;
	total->bytes += bytes;
}

/* What tells a lab frame from others: EtherType, version and header length, protocol, magic. */

static __always_inline bool is_lab4(__u16 ether_type, __u8 version_ihl, __u8 protocol)
{
	return ether_type == htons(ETH_P_IP) && version_ihl == 0x45 && protocol == IPPROTO_UDP;
}

static __always_inline bool is_lab6(__u16 ether_type, __u8 version, __u8 next_header)
{
	return ether_type == htons(ETH_P_IPV6) && version >> 4 == 6 && next_header == IPPROTO_UDP;
}

SEC("tcx/ingress")
int weir_sink_tcx(struct __sk_buff *skb)
{
	__u8 head[ETH_HLEN + 10];
	__u32 stamp, magic;

	if (bpf_skb_load_bytes(skb, 0, head, sizeof(head)))
		return TCX_NEXT;

	__u16 ether_type = head[12] | head[13] << 8;

	if (is_lab4(ether_type, head[ETH_HLEN], head[ETH_HLEN + 9]))
		stamp = LAB_STAMP4;
	else if (is_lab6(ether_type, head[ETH_HLEN], head[ETH_HLEN + 6]))
		stamp = LAB_STAMP6;
	else
		return TCX_NEXT;
	if (bpf_skb_load_bytes(skb, stamp, &magic, sizeof(magic)) || magic != htonl(LAB_MAGIC))
		return TCX_NEXT;
	count(skb->len);
	return TCX_DROP;
}

SEC("xdp.frags")
int weir_sink_xdp(struct xdp_md *ctx)
{
	const __u8 *frame = (const __u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	const __u8 *magic;

	if (frame + LAB_STAMP4 + LAB_STAMP_LEN > end)
		return XDP_PASS;

	__u16 ether_type = *(const __u16 *)(frame + 12);

	if (is_lab4(ether_type, frame[ETH_HLEN], frame[ETH_HLEN + 9]))
		magic = frame + LAB_STAMP4;
	else if (is_lab6(ether_type, frame[ETH_HLEN], frame[ETH_HLEN + 6]))
		magic = frame + LAB_STAMP6;
	else
		return XDP_PASS;
	if (magic + 4 > end || *(const __u32 *)magic != htonl(LAB_MAGIC))
		return XDP_PASS;
	count(bpf_xdp_get_buff_len(ctx));
	return XDP_DROP;
}
