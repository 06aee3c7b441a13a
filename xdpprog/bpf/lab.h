/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lab's frames, written by the generator and recognised by the sink:
 *
 *   Ethernet  14 B
 *   IPv4      20 B, no options          or IPv6 40 B, no extension headers
 *   UDP        8 B, checksum right
 *   stamp     16 B: magic, sequence number, time at which the frame was due (CLOCK_MONOTONIC, ns), all big-endian
 *   zeros to the frame's size
 */
#ifndef WEIR_LAB_H
#define WEIR_LAB_H

#define LAB_MAGIC 0x77656972 /* "weir" */

#define LAB_STAMP4 (ETH_HLEN + 20 + 8)
#define LAB_STAMP6 (ETH_HLEN + 40 + 8)
#define LAB_STAMP_LEN 16

#endif
