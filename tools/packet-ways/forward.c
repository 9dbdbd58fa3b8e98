// SPDX-License-Identifier: MIT OR Apache-2.0
// forward WAY WIRED NEXT MOBILE NEXT: forwards IPv4 packets between two interfaces by one of several ways, as a box on
// the path does. NEXT is the hardware address of the host behind an interface. Says `ready`, and when it is ended
// (SIGTERM) what it has done.
#include "ways.h"

#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(const struct box *);
} ways[] = {
    {"tun", tun_way},
    {"tun-uring", uring_way},
    {"ring-on-tun", ring_on_tun_way},
    {"ring-v3", ring_v3_way},
    {"sink-ring", sink_ring_way},
    {"packet-socket", packet_socket_way},
    {"ring-socket", ring_socket_way},
    {"xdp-copy", xdp_native_way},
    {"xdp-generic", xdp_generic_way},
};

static void tell(int signal) {
    (void)signal;
    dprintf(STDOUT_FILENO, "{\"forwarded\": %lu, \"whole\": %lu, \"cut\": %lu, \"refused\": %lu}\n", counts.forwarded,
            counts.whole, counts.cut, counts.refused);
    _exit(0);
}

static struct side side_of(const char *name, const char *next) {
    struct side side = {.name = name, .index = index_of(name)};
    unsigned char *n = side.next;
    if (sscanf(next, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", n, n + 1, n + 2, n + 3, n + 4, n + 5) != 6)
        fail("forward: NEXT is a hardware address, as 02:00:00:00:00:01");
    int fd = need(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    struct ifreq request = {0};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    need(ioctl(fd, SIOCGIFHWADDR, &request), name);
    memcpy(side.own, request.ifr_hwaddr.sa_data, 6);
    close(fd);
    return side;
}

int main(int argc, char **argv) {
    if (argc != 6) fail("usage: forward WAY WIRED NEXT MOBILE NEXT");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, tell);
    struct box box = {{side_of(argv[2], argv[3]), side_of(argv[4], argv[5])}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(ways[i].name, argv[1])) ways[i].run(&box);
    fail("forward: no such way");
}
