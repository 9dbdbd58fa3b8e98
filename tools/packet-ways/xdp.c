// SPDX-License-Identifier: MIT OR Apache-2.0
// xdp-copy, xdp-generic: AF_XDP in copy mode on the interfaces themselves. Both sockets share their packets' memory, so
// the program copies nothing.
#include "ways.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME = 2048, FRAMES = 2048, ENTRIES = 2048 }; // FRAMES: of each side

struct queue {
    uint32_t *producer, *consumer;
    void *entries;
};

struct port {
    int fd;
    struct queue rx, tx, fill, done;
    uint32_t unsent;
};

static uint8_t *memory;

static struct queue map_queue(int fd, off_t page, const struct xdp_ring_offset *offset, size_t entry) {
    size_t bytes = offset->desc + ENTRIES * entry;
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
    if (at == MAP_FAILED) need(-1, "a ring of AF_XDP");
    return (struct queue){(uint32_t *)(at + offset->producer), (uint32_t *)(at + offset->consumer), at + offset->desc};
}

static struct xdp_desc *desc(struct queue *queue, uint32_t n) {
    return &((struct xdp_desc *)queue->entries)[n % ENTRIES];
}

static uint64_t *address(struct queue *queue, uint32_t n) {
    return &((uint64_t *)queue->entries)[n % ENTRIES];
}

static void give(struct port *port, uint64_t frame) {
    uint32_t producer = *port->fill.producer;
    *address(&port->fill, producer) = frame & ~(uint64_t)(FRAME - 1);
    __atomic_store_n(port->fill.producer, producer + 1, __ATOMIC_RELEASE);
}

static void open_port(struct port *port, const struct side *side, const struct port *first) {
    int size = ENTRIES;
    port->fd = need(socket(AF_XDP, SOCK_RAW, 0), "AF_XDP");
    if (!first) {
        struct xdp_umem_reg region = {.addr = (uintptr_t)memory, .len = 2ul * FRAMES * FRAME, .chunk_size = FRAME};
        need(setsockopt(port->fd, SOL_XDP, XDP_UMEM_REG, &region, sizeof region), "memory of AF_XDP");
    }
    for (int option = XDP_RX_RING; option <= XDP_UMEM_COMPLETION_RING; option++)
        if (option != XDP_UMEM_REG) need(setsockopt(port->fd, SOL_XDP, option, &size, sizeof size), "a ring of AF_XDP");
    struct xdp_mmap_offsets offsets;
    socklen_t len = sizeof offsets;
    need(getsockopt(port->fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &len), "XDP_MMAP_OFFSETS");
    port->rx = map_queue(port->fd, XDP_PGOFF_RX_RING, &offsets.rx, sizeof(struct xdp_desc));
    port->tx = map_queue(port->fd, XDP_PGOFF_TX_RING, &offsets.tx, sizeof(struct xdp_desc));
    port->fill = map_queue(port->fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, sizeof(uint64_t));
    port->done = map_queue(port->fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, sizeof(uint64_t));
    for (uint64_t i = 0; i < FRAMES; i++) give(port, ((first ? FRAMES : 0) + i) * FRAME);
    struct sockaddr_xdp at = {.sxdp_family = AF_XDP, .sxdp_ifindex = side->index, .sxdp_flags = XDP_COPY};
    if (first) at.sxdp_flags = XDP_SHARED_UMEM, at.sxdp_shared_umem_fd = first->fd;
    int bound;
    // The kernel takes a moment until it has let go of an ended process's sockets.
    for (int i = 0; (bound = bind(port->fd, (struct sockaddr *)&at, sizeof at)) < 0 && errno == EBUSY && i < 100; i++)
        usleep(20000);
    need(bound, "AF_XDP on an interface");
}

// Leads all packets of the interface's first queue into the socket.
static void attach(const struct port *port, const struct side *side, unsigned mode) {
    int map = make_map(BPF_MAP_TYPE_XSKMAP, 4, 1);
    need(set_element(map, 0, &port->fd), "AF_XDP in a map");
    struct bpf_insn program[] = {MAP(1, map), MOV(2, 0), MOV(3, XDP_PASS), CALL(BPF_FUNC_redirect_map), EXIT};
    int fd = load_program(BPF_PROG_TYPE_XDP, program, 6);
    need(link_program(fd, side->index, BPF_XDP, mode), "an XDP program");
}

static int forward(struct port *from, struct port *port, const struct side *to) {
    uint32_t first = *from->rx.consumer, end = __atomic_load_n(from->rx.producer, __ATOMIC_ACQUIRE);
    if (end - first > BATCH) end = first + BATCH;
    uint32_t out = *port->tx.producer, sent = __atomic_load_n(port->tx.consumer, __ATOMIC_ACQUIRE);
    for (uint32_t i = first; i != end; i++) {
        struct xdp_desc packet = *desc(&from->rx, i);
        if (out - sent == ENTRIES) {
            give(from, packet.addr);
            counts.refused++;
            continue;
        }
        memcpy(memory + packet.addr, to->next, 6);
        memcpy(memory + packet.addr + 6, to->own, 6);
        *desc(&port->tx, out++) = packet;
        counts.forwarded++;
    }
    __atomic_store_n(from->rx.consumer, end, __ATOMIC_RELEASE);
    __atomic_store_n(port->tx.producer, out, __ATOMIC_RELEASE);
    return end - first;
}

// A call sends some of what is in the ring (32 packets).
static void send_all(struct port *port) {
    while (__atomic_load_n(port->tx.consumer, __ATOMIC_ACQUIRE) != *port->tx.producer)
        if (sendto(port->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN && errno != EBUSY) break;
}

// Frames that were sent go back to the side that received into them.
static void recycle(struct port *ports, struct port *port) {
    uint32_t first = *port->done.consumer, end = __atomic_load_n(port->done.producer, __ATOMIC_ACQUIRE);
    for (uint32_t i = first; i != end; i++) {
        uint64_t frame = *address(&port->done, i);
        give(&ports[frame >= (uint64_t)FRAMES * FRAME], frame);
    }
    __atomic_store_n(port->done.consumer, end, __ATOMIC_RELEASE);
}

static void run(const struct box *box, unsigned mode) {
    struct port ports[2];
    size_t bytes = 2ul * FRAMES * FRAME;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) need(-1, "memory of AF_XDP");
    for (int i = 0; i < 2; i++) open_port(&ports[i], &box->side[i], i ? &ports[0] : NULL);
    for (int i = 0; i < 2; i++) attach(&ports[i], &box->side[i], mode);
    struct pollfd wait[2] = {{.fd = ports[0].fd, .events = POLLIN}, {.fd = ports[1].fd, .events = POLLIN}};
    ready();
    for (;;) {
        int seen = 0;
        for (int from = 0; from < 2; from++) {
            int now = forward(&ports[from], &ports[!from], &box->side[!from]);
            if (now) send_all(&ports[!from]);
            recycle(ports, &ports[!from]);
            seen += now;
        }
        if (!seen) poll(wait, 2, -1);
    }
}

void xdp_native_way(const struct box *box) {
    run(box, XDP_FLAGS_DRV_MODE);
}

void xdp_generic_way(const struct box *box) {
    run(box, XDP_FLAGS_SKB_MODE);
}
