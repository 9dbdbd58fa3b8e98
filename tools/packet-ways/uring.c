// SPDX-License-Identifier: MIT OR Apache-2.0
// tun-uring: one read that goes on for ever on each TUN (Linux 6.7), into buffers that the program provides, and writes
// that are handed over together.
#include "ways.h"

#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// Debian 12's headers are of Linux 6.1.
enum { READ_MULTISHOT = 49, ENTRIES = 512, COMPLETIONS = 4096, BUFFERS = 256, IS_WRITE = 1 << 24 };

static struct {
    int fd;
    unsigned *sq_tail, *sq_head, *sq_array, sq_mask, unsubmitted;
    unsigned *cq_head, *cq_tail, cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
} uring;

static struct {
    int fd;
    struct io_uring_buf_ring *provided;
    uint8_t *memory;
} side[2];

static void *map(size_t bytes, int fd, off_t offset) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (memory == MAP_FAILED) need(-1, "memory of io_uring");
    return memory;
}

static void set_up(void) {
    struct io_uring_params params = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        .cq_entries = COMPLETIONS,
    };
    uring.fd = need(syscall(SYS_io_uring_setup, ENTRIES, &params), "io_uring");
    size_t sq = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    uint8_t *rings = map(sq > cq ? sq : cq, uring.fd, IORING_OFF_SQ_RING);
    uring.sqes = map(params.sq_entries * sizeof *uring.sqes, uring.fd, IORING_OFF_SQES);
    uring.sq_head = (unsigned *)(rings + params.sq_off.head);
    uring.sq_tail = (unsigned *)(rings + params.sq_off.tail);
    uring.sq_array = (unsigned *)(rings + params.sq_off.array);
    uring.sq_mask = *(unsigned *)(rings + params.sq_off.ring_mask);
    uring.cq_head = (unsigned *)(rings + params.cq_off.head);
    uring.cq_tail = (unsigned *)(rings + params.cq_off.tail);
    uring.cq_mask = *(unsigned *)(rings + params.cq_off.ring_mask);
    uring.cqes = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
}

static void enter(unsigned wait) {
    long taken = syscall(SYS_io_uring_enter, uring.fd, uring.unsubmitted, wait, IORING_ENTER_GETEVENTS, NULL, 0);
    if (taken > 0) uring.unsubmitted -= taken;
}

static struct io_uring_sqe *entry(void) {
    unsigned tail = *uring.sq_tail;
    while (tail - __atomic_load_n(uring.sq_head, __ATOMIC_ACQUIRE) > uring.sq_mask) enter(0);
    struct io_uring_sqe *sqe = &uring.sqes[tail & uring.sq_mask];
    memset(sqe, 0, sizeof *sqe);
    uring.sq_array[tail & uring.sq_mask] = tail & uring.sq_mask;
    __atomic_store_n(uring.sq_tail, tail + 1, __ATOMIC_RELEASE);
    uring.unsubmitted++;
    return sqe;
}

static void provide(int from, int buffer) {
    struct io_uring_buf_ring *ring = side[from].provided;
    struct io_uring_buf *place = &ring->bufs[ring->tail % BUFFERS];
    place->addr = (uintptr_t)(side[from].memory + (size_t)buffer * LONGEST);
    place->len = LONGEST;
    place->bid = buffer;
    __atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
}

static void begin_reading(int from) {
    struct io_uring_sqe *sqe = entry();
    sqe->opcode = READ_MULTISHOT;
    sqe->fd = side[from].fd;
    sqe->flags = IOSQE_BUFFER_SELECT;
    sqe->buf_group = from;
    sqe->user_data = from;
}

static void open_side(int from, const char *name) {
    side[from].fd = open_tun(name, 1);
    side[from].provided = map(BUFFERS * sizeof(struct io_uring_buf), -1, 0);
    side[from].memory = map((size_t)BUFFERS * LONGEST, -1, 0);
    struct io_uring_buf_reg request = {
        .ring_addr = (uintptr_t)side[from].provided, .ring_entries = BUFFERS, .bgid = from};
    need(syscall(SYS_io_uring_register, uring.fd, IORING_REGISTER_PBUF_RING, &request, 1), "buffers of io_uring");
    for (int i = 0; i < BUFFERS; i++) provide(from, i);
    begin_reading(from);
}

// A packet, or the end of a write, whose buffer is free then.
static void complete(const struct io_uring_cqe *cqe) {
    int from = cqe->user_data & 1;
    if (cqe->user_data & IS_WRITE) {
        *(cqe->res < 0 ? &counts.refused : &counts.forwarded) += 1;
        provide(from, cqe->user_data >> 1 & 0xffff);
        return;
    }
    if (cqe->res > 0) {
        int buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        struct io_uring_sqe *sqe = entry();
        sqe->opcode = IORING_OP_WRITE;
        sqe->fd = side[!from].fd;
        sqe->addr = (uintptr_t)(side[from].memory + (size_t)buffer * LONGEST);
        sqe->len = cqe->res;
        sqe->user_data = IS_WRITE | buffer << 1 | from;
    } else if (cqe->res == -22) {
        fail("io_uring has no multishot reads (Linux 6.7 has them)");
    }
    if (!(cqe->flags & IORING_CQE_F_MORE)) begin_reading(from); // no buffer was free
}

void uring_way(const struct box *box) {
    const char *names[] = {"ways-wired", "ways-mobile"};
    set_up();
    for (int i = 0; i < 2; i++) open_side(i, names[i]);
    for (int i = 0; i < 2; i++) take_into(index_of(names[i]), &box->side[i]);
    ready();
    for (;;) {
        enter(1);
        unsigned head = *uring.cq_head;
        while (head != __atomic_load_n(uring.cq_tail, __ATOMIC_ACQUIRE)) {
            struct io_uring_cqe cqe = uring.cqes[head & uring.cq_mask];
            __atomic_store_n(uring.cq_head, ++head, __ATOMIC_RELEASE);
            complete(&cqe);
        }
    }
}
