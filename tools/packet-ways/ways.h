// SPDX-License-Identifier: MIT OR Apache-2.0
// What all ways of packets into a program and out of it share.
#ifndef WAYS_H
#define WAYS_H

#include <linux/bpf.h>
#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VNET = sizeof(struct virtio_net_hdr), // before each packet: offsets of checksums, segment sizes
    ETHERNET = 14,
    LONGEST = 66 * 1024, // room for a super-packet with both headers
    BATCH = 64,          // packets of one side before the other has its turn
    WIRED = 0,
    MOBILE = 1,
};

// An interface of the box and what is behind it.
struct side {
    const char *name;
    int index;
    uint8_t own[6], next[6]; // hardware addresses: its own, and the host's behind it
};

struct box {
    struct side side[2];
};

// What a way has done; told when it ends.
extern struct counts {
    unsigned long forwarded, whole, cut, refused;
} counts;

// One line about what is missing, and the end.
void fail(const char *what) __attribute__((noreturn));
long need(long value, const char *what);
// The last line before packets are forwarded.
void ready(void);

int open_tun(const char *name, int blocking);
int index_of(const char *name);
void take_into(int tun_index, const struct side *side); // tcx: what comes in at `side` goes to the TUN
void drop_at(const struct side *side);                   // tcx: the kernel forwards nothing that comes in there
void queue_nothing(int tun);                             // an eBPF filter that leaves nothing in the TUN's queue
void write_packet(int tun, const void *packet, size_t len);
int open_frame_socket(const struct side *side, int protocol); // frames of an interface, each with a virtio header
struct mmsghdr;
void send_frames(int out, struct mmsghdr *messages, int count);

int load_program(int type, const struct bpf_insn *program, int length);
int link_program(int program, int interface, int attach_type, unsigned flags);
int make_map(int type, int value_size, int entries);
int set_element(int map, uint32_t key, const void *value);
int read_element(int map, uint32_t key, void *value);

// The ways. None comes back.
void tun_way(const struct box *box);
void uring_way(const struct box *box);
void ring_on_tun_way(const struct box *box);
void ring_v3_way(const struct box *box);
void sink_ring_way(const struct box *box);
void ring_socket_way(const struct box *box);
void packet_socket_way(const struct box *box);
void xdp_native_way(const struct box *box);
void xdp_generic_way(const struct box *box);

#define INSN(c, d, s, o, i) \
    ((struct bpf_insn){.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (int)(i)})
#define MOV(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define MOVE(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define MAP(d, fd) INSN(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, fd), INSN(0, 0, 0, 0, 0)

#endif
