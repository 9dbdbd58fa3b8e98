// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices, and BPF programs of a few instructions.
#include "ways.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif
// Kernel headers of Debian 12 are older than tcx (Linux 6.6).
enum { TCX_INGRESS = 46, SHOT = 2 };

struct counts counts;

void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

long need(long value, const char *what) {
    if (value >= 0) return value;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

void ready(void) {
    puts("ready");
    fflush(stdout);
}

int index_of(const char *name) {
    int index = if_nametoindex(name);
    return index ? index : (int)need(-1, name);
}

static void set_up(const char *name) {
    int fd = need(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    struct ifreq request = {0};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    need(ioctl(fd, SIOCGIFFLAGS, &request), name);
    request.ifr_flags |= IFF_UP;
    need(ioctl(fd, SIOCSIFFLAGS, &request), name);
    close(fd);
}

int open_tun(const char *name, int blocking) {
    int fd = need(open("/dev/net/tun", O_RDWR | O_CLOEXEC | (blocking ? 0 : O_NONBLOCK)), "/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    need(ioctl(fd, TUNSETIFF, &request), "a TUN device with a virtio header");
    unsigned offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    if (ioctl(fd, TUNSETOFFLOAD, offloads | TUN_F_USO4 | TUN_F_USO6) < 0)
        need(ioctl(fd, TUNSETOFFLOAD, offloads), "offloads of a TUN device");
    set_up(name);
    return fd;
}

static long bpf(int command, union bpf_attr *attr) {
    return syscall(SYS_bpf, command, attr, sizeof *attr);
}

int load_program(int type, const struct bpf_insn *program, int length) {
    union bpf_attr attr = {
        .prog_type = type, .insn_cnt = length, .insns = (uintptr_t)program, .license = (uintptr_t) "Dual MIT/GPL"};
    return need(bpf(BPF_PROG_LOAD, &attr), "a BPF program");
}

int link_program(int program, int interface, int attach_type, unsigned flags) {
    union bpf_attr attr = {0};
    attr.link_create.prog_fd = program;
    attr.link_create.target_ifindex = interface;
    attr.link_create.attach_type = attach_type;
    attr.link_create.flags = flags;
    return bpf(BPF_LINK_CREATE, &attr);
}

int make_map(int type, int value_size, int entries) {
    union bpf_attr attr = {.map_type = type, .key_size = 4, .value_size = value_size, .max_entries = entries};
    return need(bpf(BPF_MAP_CREATE, &attr), "a BPF map");
}

int set_element(int map, uint32_t key, const void *value) {
    union bpf_attr attr = {.map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)value};
    return bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

int read_element(int map, uint32_t key, void *value) {
    union bpf_attr attr = {.map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)value};
    return bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

void take_into(int tun_index, const struct side *side) {
    struct bpf_insn program[] = {MOV(1, tun_index), MOV(2, 0), CALL(BPF_FUNC_redirect), EXIT};
    int fd = load_program(BPF_PROG_TYPE_SCHED_CLS, program, 4);
    need(link_program(fd, side->index, TCX_INGRESS, 0), "tcx (Linux 6.6 has it)");
}

void drop_at(const struct side *side) {
    struct bpf_insn program[] = {MOV(0, SHOT), EXIT};
    int fd = load_program(BPF_PROG_TYPE_SCHED_CLS, program, 2);
    need(link_program(fd, side->index, TCX_INGRESS, 0), "tcx (Linux 6.6 has it)");
}

void queue_nothing(int tun) {
    struct bpf_insn program[] = {MOV(0, 0), EXIT};
    int fd = load_program(BPF_PROG_TYPE_SOCKET_FILTER, program, 2);
    need(ioctl(tun, TUNSETFILTEREBPF, &fd), "a filter of a TUN device");
}

void write_packet(int tun, const void *packet, size_t len) {
    if (write(tun, packet, len) == (ssize_t)len)
        counts.forwarded++;
    else
        counts.refused++;
}
