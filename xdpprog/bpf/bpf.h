/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What weir's programs need of the kernel's BPF interface, and nothing more, so that the objects depend on clang alone and not on the
 * headers of the machine that compiles them. Numbers and layouts are those of include/uapi/linux/bpf.h (Linux 6.18); they are stable.
 */
#ifndef WEIR_BPF_H
#define WEIR_BPF_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef _Bool bool;
#define true 1
#define false 0

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))

/* BTF-defined maps: the loader reads the attributes from the types of the members. */
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

#define unlikely(x) __builtin_expect(!!(x), 0)

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))

/*
 * after(x) is 0, which only the machine finds out: a load whose address it is part of waits for x. Such a dependency keeps two loads in
 * order on every CPU, and on x86, where loads are in order anyway, it costs next to nothing. Programs have no barrier before Linux 6.15.
 */
static __always_inline __u64 after(__u64 x)
{
	__u64 same = x;

	asm volatile("" : "+r"(same));
	return x ^ same;
}

enum xdp_action { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum tcx_action { TCX_NEXT = -1, TCX_PASS = 0, TCX_DROP = 2 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_XSKMAP = 17,
};

enum { BPF_F_NO_PREALLOC = 1U << 0, BPF_F_MMAPABLE = 1U << 10 };

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

/* Its first member is all that is read here. */
struct __sk_buff {
	__u32 len;
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_skb_load_bytes)(const void *skb, __u32 offset, void *to, __u32 len) = (void *)26;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to, __u32 len) = (void *)189;

/* A kernel function, not a helper: since Linux 6.8, and only in programs loaded for one device. */
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __u16 *vlan_proto, __u16 *vlan_tci)
	__attribute__((section(".ksyms"), weak));

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define htons(x) __builtin_bswap16(x)
#define htonl(x) __builtin_bswap32(x)
#define htonll(x) __builtin_bswap64(x)
#else
#define htons(x) (x)
#define htonl(x) (x)
#define htonll(x) (x)
#endif
#define ntohs htons
#define ntohl htonl

#define ETH_HLEN 14
#define ETH_P_IP 0x0800
#define ETH_P_ARP 0x0806
#define ETH_P_IPV6 0x86DD
#define IPPROTO_UDP 17
#define IPPROTO_ICMPV6 58

#endif
