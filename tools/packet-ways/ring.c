// SPDX-License-Identifier: MIT OR Apache-2.0
// ring-on-tun, ring-v3, sink-ring: what the kernel sends to a TUN is read from a packet socket's ring, in memory that
// the program shares, and the TUN itself queues nothing. What the program sends is written to a TUN.
// ring-socket: such rings on the interfaces themselves, and packet sockets that send several packets per system call.
#define _GNU_SOURCE
#include "ways.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum {
    SLOT = 2048,
    SLOTS = 1024,
    BLOCK = 1 << 16,
    V3_BLOCK = 1 << 18, // has room for the longest packet
    V3_BLOCKS = 8,
    RESERVE = 38,          // so that packets begin at a cache line: 80 bytes of slot header, and the virtio header
    BUFFER = 32 << 20,     // bytes of long packets that wait for recvmsg
};

struct ring {
    int fd;
    uint8_t *memory;
    unsigned next;
};

static uint8_t whole[BATCH][LONGEST];

// A packet socket of what leaves by the device, or of what comes in.
static int open_socket(int version, int is_outgoing) {
    int fd = need(socket(AF_PACKET, SOCK_RAW, 0), "a packet socket");
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, !is_outgoing, is_outgoing),
        BPF_STMT(BPF_RET | BPF_K, 0x40000),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog filter = {4, code};
    int yes = 1, incoming = !is_outgoing, reserve = RESERVE, buffer = BUFFER;
    need(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), "a socket filter");
    need(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer), "SO_RCVBUFFORCE");
    need(setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version), "PACKET_VERSION");
    need(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes), "PACKET_VNET_HDR");
    need(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &incoming, sizeof incoming), "PACKET_IGNORE_OUTGOING");
    need(setsockopt(fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof reserve), "PACKET_RESERVE");
    return fd;
}

static struct ring finish(int fd, size_t bytes, int interface) {
    int protection = PROT_READ | PROT_WRITE;
    struct ring ring = {.fd = fd, .memory = mmap(NULL, bytes, protection, MAP_SHARED | MAP_POPULATE, fd, 0)};
    if (ring.memory == MAP_FAILED) need(-1, "a ring's memory");
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = interface};
    need(bind(fd, (struct sockaddr *)&at, sizeof at), "bind");
    return ring;
}

static struct ring open_v2(int interface, int is_outgoing) {
    int fd = open_socket(TPACKET_V2, is_outgoing), threshold = 1;
    need(setsockopt(fd, SOL_PACKET, PACKET_COPY_THRESH, &threshold, sizeof threshold), "PACKET_COPY_THRESH");
    struct tpacket_req request = {BLOCK, SLOTS / (BLOCK / SLOT), SLOT, SLOTS};
    need(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request), "PACKET_RX_RING");
    return finish(fd, SLOT * SLOTS, interface);
}

static struct ring open_v3(int interface) {
    int fd = open_socket(TPACKET_V3, 1);
    struct tpacket_req3 request = {
        .tp_block_size = V3_BLOCK,
        .tp_block_nr = V3_BLOCKS,
        .tp_frame_size = SLOT,
        .tp_frame_nr = V3_BLOCKS * (V3_BLOCK / SLOT),
        .tp_retire_blk_tov = 1, // ms
    };
    need(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request), "PACKET_RX_RING");
    return finish(fd, V3_BLOCK * V3_BLOCKS, interface);
}

// The packet in the ring's slot `ahead` of the next, with its virtio header; of no length where it was lost. A packet
// that does not fit is received into `room`. 0 where there is none.
static int look(struct ring *ring, unsigned ahead, uint8_t *room, struct iovec *packet) {
    uint8_t *slot = ring->memory + (ring->next + ahead) % SLOTS * SLOT;
    struct tpacket2_hdr *header = (struct tpacket2_hdr *)slot;
    uint32_t status = __atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE);
    if (!(status & TP_STATUS_USER)) return 0;
    *packet = (struct iovec){slot + header->tp_mac - VNET, header->tp_snaplen + VNET};
    if (status & TP_STATUS_COPY) {
        ssize_t len = recv(ring->fd, room, LONGEST, MSG_DONTWAIT);
        *packet = (struct iovec){room, len > 0 ? len : 0};
        counts.whole++;
    } else if (header->tp_snaplen < header->tp_len) {
        packet->iov_len = 0;
        counts.cut++;
    }
    return 1;
}

static void release(struct ring *ring) {
    struct tpacket2_hdr *header = (struct tpacket2_hdr *)(ring->memory + ring->next * SLOT);
    __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    ring->next = (ring->next + 1) % SLOTS;
}

// Packets that were in the ring, at most BATCH.
static int forward_v2(struct ring *ring, int to) {
    struct iovec packet;
    int seen = 0;
    for (; seen < BATCH && look(ring, 0, whole[0], &packet); seen++) {
        if (packet.iov_len) write_packet(to, packet.iov_base, packet.iov_len);
        release(ring);
    }
    return seen;
}

// The same, sent together from where they are.
static int forward_frames(struct ring *ring, int out, const struct side *to) {
    struct iovec packets[BATCH];
    struct mmsghdr messages[BATCH];
    int seen = 0, count = 0;
    for (; seen < BATCH && look(ring, seen, whole[seen], &packets[count]); seen++) {
        if (!packets[count].iov_len) continue;
        uint8_t *frame = (uint8_t *)packets[count].iov_base + VNET;
        memcpy(frame, to->next, 6);
        memcpy(frame + 6, to->own, 6);
        messages[count].msg_hdr = (struct msghdr){.msg_iov = &packets[count], .msg_iovlen = 1};
        count++;
    }
    send_frames(out, messages, count);
    for (int i = 0; i < seen; i++) release(ring);
    return seen;
}

static int forward_v3(struct ring *ring, int to) {
    struct tpacket_block_desc *block = (void *)(ring->memory + ring->next * V3_BLOCK);
    if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) return 0;
    int packets = block->hdr.bh1.num_pkts;
    uint8_t *at = (uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;
    for (int i = 0; i < packets; i++) {
        struct tpacket3_hdr *header = (void *)at;
        if (header->tp_snaplen < header->tp_len)
            counts.cut++;
        else
            write_packet(to, at + header->tp_mac - VNET, header->tp_snaplen + VNET);
        at += header->tp_next_offset;
    }
    __atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    ring->next = (ring->next + 1) % V3_BLOCKS;
    return packets + 1;
}

// Packets from the device of side `i` are written to `out[i]`.
static void forward(const struct box *box, const char *const names[2], const int out[2], int version) {
    struct ring ring[2];
    for (int i = 0; i < 2; i++) {
        int interface = index_of(names[i]);
        ring[i] = version == TPACKET_V2 ? open_v2(interface, 1) : open_v3(interface);
        take_into(interface, &box->side[i]);
    }
    struct pollfd wait[2] = {{.fd = ring[0].fd, .events = POLLIN}, {.fd = ring[1].fd, .events = POLLIN}};
    ready();
    for (;;) {
        int seen = 0;
        for (int i = 0; i < 2; i++)
            seen += version == TPACKET_V2 ? forward_v2(&ring[i], out[i]) : forward_v3(&ring[i], out[i]);
        if (!seen) poll(wait, 2, -1);
    }
}

static void on_tun(const struct box *box, int version) {
    const char *names[] = {"ways-wired", "ways-mobile"};
    int out[2];
    for (int i = 0; i < 2; i++) {
        out[!i] = open_tun(names[i], 0);
        queue_nothing(out[!i]);
    }
    forward(box, names, out, version);
}

void ring_on_tun_way(const struct box *box) {
    on_tun(box, TPACKET_V2);
}

void ring_v3_way(const struct box *box) {
    on_tun(box, TPACKET_V3);
}

void sink_ring_way(const struct box *box) {
    const char *names[] = {"sink-wired", "sink-mobile"};
    for (int i = 0; i < 2; i++) queue_nothing(open_tun(names[i], 0));
    int out = open_tun("ways-out", 0);
    forward(box, names, (int[]){out, out}, TPACKET_V2);
}

void ring_socket_way(const struct box *box) {
    struct ring ring[2];
    struct pollfd wait[2];
    int out[2];
    for (int i = 0; i < 2; i++) {
        ring[i] = open_v2(box->side[i].index, 0);
        wait[i] = (struct pollfd){.fd = ring[i].fd, .events = POLLIN};
        out[i] = open_frame_socket(&box->side[i], 0);
        drop_at(&box->side[i]);
    }
    ready();
    for (;;) {
        int seen = 0;
        for (int from = 0; from < 2; from++) seen += forward_frames(&ring[from], out[!from], &box->side[!from]);
        if (!seen) poll(wait, 2, -1);
    }
}
