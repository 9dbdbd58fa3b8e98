// SPDX-License-Identifier: MIT OR Apache-2.0
// Load for packet-ways, and what receives it:
//   load count SERVER CLIENT      counts flood's packets where they come in at eth0, and drops them; says the count for
//                                 each line read
//   load flood FROM TO NEXT SECONDS RATE   64 UDP flows of 1,428-byte IP packets out of eth0; RATE 0: as fast as it can
//   load serve ADDRESS            answers the others
//   load check ADDRESS            bytes both ways arrive as they were sent
//   load get ADDRESS SECONDS      one TCP flow: bytes and nanoseconds
//   load ping ADDRESS COUNT       round trips of UDP, 1,000 a second: lost, p50 and p99 in ns
//   load offloads on|off          checksums and segments by eth0 or by its host
#define _GNU_SOURCE
#include "ways.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FLOWS = 64, PACKET = 1428, PORT = 5000, TCP_PORT = 7000, UDP_PORT = 7001, TCX = 46, BURST = 16 };
enum { CHECKED = 24 << 20, PIECE = 1 << 20 };

static uint8_t piece[PIECE];

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static void sleep_until(uint64_t at) {
    struct timespec until = {at / 1000000000, at % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static struct sockaddr_in address(const char *text, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, text, &at.sin_addr) != 1) fail("load: an address is IPv4, as 10.0.0.1");
    return at;
}

static int open_to(int type, const char *text, int port, int is_server) {
    int fd = need(socket(AF_INET, type, 0), "socket"), yes = 1;
    struct sockaddr_in at = address(text, port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (is_server)
        need(bind(fd, (struct sockaddr *)&at, sizeof at), "bind");
    else
        need(connect(fd, (struct sockaddr *)&at, sizeof at), "connect");
    return fd;
}

// What `piece` has at the `n`-th place of a transfer, so that bytes out of place are seen.
static void fill(uint64_t n) {
    uint64_t state = n * 0x9e3779b97f4a7c15 + 1;
    for (size_t i = 0; i < PIECE / 8; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(piece + i * 8, &state, 8);
    }
}

static int send_all(int fd) {
    for (size_t at = 0; at < PIECE;) {
        ssize_t now = send(fd, piece + at, PIECE - at, MSG_NOSIGNAL);
        if (now <= 0) return 0;
        at += now;
    }
    return 1;
}

static void send_checked(int fd) {
    for (int n = 0; n < CHECKED / PIECE; n++) {
        fill(n);
        if (!send_all(fd)) return;
    }
}

static int is_received(int fd) {
    static uint8_t got[PIECE];
    for (int n = 0; n < CHECKED / PIECE; n++) {
        fill(n);
        if (recv(fd, got, PIECE, MSG_WAITALL) != PIECE || memcmp(got, piece, PIECE)) return 0;
    }
    return 1;
}

static void answer_tcp(int fd) {
    char word = 0;
    if (recv(fd, &word, 1, 0) != 1) return;
    if (word == 'c') {
        send_checked(fd);
        word = is_received(fd) ? 'y' : 'n';
        send(fd, &word, 1, MSG_NOSIGNAL);
    } else {
        while (send_all(fd)) continue;
    }
}

static void serve(const char *text) {
    int udp = open_to(SOCK_DGRAM, text, UDP_PORT, 1), tcp = open_to(SOCK_STREAM, text, TCP_PORT, 1);
    need(listen(tcp, 8), "listen");
    signal(SIGCHLD, SIG_IGN);
    ready();
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int fd; (fd = accept(tcp, NULL, NULL)) >= 0; close(fd))
            if (!fork()) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                answer_tcp(fd);
                _exit(0);
            }
    }
    struct sockaddr_in from;
    for (;;) {
        socklen_t len = sizeof from;
        ssize_t got = recvfrom(udp, piece, PIECE, 0, (struct sockaddr *)&from, &len);
        if (got > 0) sendto(udp, piece, got, 0, (struct sockaddr *)&from, len);
    }
}

static void check(const char *text) {
    struct timeval patience = {5, 0};
    int fd = need(socket(AF_INET, SOCK_STREAM, 0), "socket");
    struct sockaddr_in at = address(text, TCP_PORT);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    need(connect(fd, (struct sockaddr *)&at, sizeof at), "no connection");
    send(fd, "c", 1, 0);
    if (!is_received(fd)) fail("a download does not arrive as it was sent");
    send_checked(fd);
    char word = 0;
    if (recv(fd, &word, 1, 0) != 1 || word != 'y') fail("an upload does not arrive as it was sent");
    puts("{}");
}

static void get(const char *text, double seconds) {
    int fd = open_to(SOCK_STREAM, text, TCP_PORT, 0);
    send(fd, "g", 1, 0);
    uint64_t bytes = 0, begin = now(), end = begin + seconds * 1e9;
    while (now() < end) {
        ssize_t got = recv(fd, piece, PIECE, MSG_TRUNC);
        if (got <= 0) break;
        bytes += got;
    }
    printf("{\"bytes\": %lu, \"ns\": %lu}\n", bytes, now() - begin);
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void ping(const char *text, int count) {
    int fd = open_to(SOCK_DGRAM, text, UDP_PORT, 0), got = 0;
    struct timeval patience = {0, 200000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    uint64_t *taken = calloc(count, sizeof *taken), next = now();
    for (int i = 0; i < count; i++) {
        uint64_t said[8] = {now(), i}, heard[8] = {0};
        send(fd, said, sizeof said, 0);
        while (recv(fd, heard, sizeof heard, 0) > 0 && heard[1] != (uint64_t)i) continue;
        if (heard[0] == said[0]) taken[got++] = now() - said[0];
        next += 1000000;
        if (next < now()) next = now();
        sleep_until(next);
    }
    if (!got) fail("no answer");
    qsort(taken, got, sizeof *taken, by_size);
    printf("{\"lost\": %d, \"p50_ns\": %lu, \"p99_ns\": %lu}\n", count - got, taken[got / 2], taken[got * 99 / 100]);
}

static void count(const char *server, const char *client) {
    uint32_t from = ntohl(address(server, 0).sin_addr.s_addr), to = ntohl(address(client, 0).sin_addr.s_addr);
    int map = make_map(BPF_MAP_TYPE_ARRAY, 8, 1);
#define LOAD(size, at) INSN(BPF_LD | BPF_ABS | (size), 0, 0, 0, at)
#define UNLESS(op, value, over) INSN(BPF_JMP32 | (op) | BPF_K, 0, 0, over, value)
    struct bpf_insn program[] = {
        MOVE(6, 1),
        LOAD(BPF_H, 12), UNLESS(BPF_JNE, ETH_P_IP, 22),
        LOAD(BPF_B, 23), UNLESS(BPF_JNE, IPPROTO_UDP, 20),
        LOAD(BPF_H, 16), UNLESS(BPF_JNE, PACKET, 18),
        LOAD(BPF_W, 26), UNLESS(BPF_JNE, from, 16),
        LOAD(BPF_W, 30), UNLESS(BPF_JNE, to, 14),
        LOAD(BPF_H, 36), UNLESS(BPF_JLT, PORT, 12), UNLESS(BPF_JGE, PORT + FLOWS, 11),
        INSN(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0),
        MOVE(2, 10), INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4),
        MAP(1, map), CALL(BPF_FUNC_map_lookup_elem),
        INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4, 0),
        MOV(1, 1), INSN(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 1, 0, BPF_ADD),
        MOV(0, 2), EXIT, // TC_ACT_SHOT
        MOV(0, 0), EXIT,
    };
    int fd = load_program(BPF_PROG_TYPE_SCHED_CLS, program, sizeof program / sizeof *program);
    need(link_program(fd, index_of("eth0"), TCX, 0), "tcx (Linux 6.6 has it)");
    ready();
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        uint64_t value = 0;
        read_element(map, 0, &value);
        printf("%lu\n", value);
        fflush(stdout);
    }
}

static uint16_t sum_of(const uint8_t *header) {
    uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2) sum += header[i] << 8 | header[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    return ~((sum & 0xffff) + (sum >> 16));
}

// Frames of all flows, as they come from a wire: with checksums of IP, and none of UDP.
static void make_frames(uint8_t frames[FLOWS][ETHERNET + PACKET], const char *from, const char *to, const char *next) {
    struct ifreq own = {.ifr_name = "eth0"};
    int fd = need(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    need(ioctl(fd, SIOCGIFHWADDR, &own), "eth0");
    struct in_addr source = address(from, 0).sin_addr, target = address(to, 0).sin_addr;
    for (int i = 0; i < FLOWS; i++) {
        uint8_t *f = frames[i], *ip = f + ETHERNET;
        sscanf(next, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", f, f + 1, f + 2, f + 3, f + 4, f + 5);
        memcpy(f + 6, own.ifr_hwaddr.sa_data, 6);
        memcpy(f + 12, (uint8_t[]){8, 0, 0x45, 0, PACKET >> 8, PACKET & 255, 0, 0, 0x40, 0, 64, IPPROTO_UDP}, 12);
        memcpy(ip + 12, &source, 4);
        memcpy(ip + 16, &target, 4);
        uint16_t sum = htons(sum_of(ip)), udp[] = {htons(4000 + i), htons(PORT + i), htons(PACKET - 20), 0};
        memcpy(ip + 10, &sum, 2);
        memcpy(ip + 20, udp, 8);
    }
}

static void flood(const char *from, const char *to, const char *next, double seconds, double rate) {
    static uint8_t frames[FLOWS][ETHERNET + PACKET];
    make_frames(frames, from, to, next);
    struct iovec parts[FLOWS];
    struct mmsghdr messages[FLOWS];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < FLOWS; i++) {
        parts[i] = (struct iovec){frames[i], ETHERNET + PACKET};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int fd = need(socket(AF_PACKET, SOCK_RAW, 0), "a packet socket"), yes = 1;
    need(setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &yes, sizeof yes), "PACKET_QDISC_BYPASS");
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = index_of("eth0")};
    need(bind(fd, (struct sockaddr *)&at, sizeof at), "bind");
    prctl(PR_SET_TIMERSLACK, 1);
    uint64_t sent = 0, begin = now(), end = begin + seconds * 1e9;
    int burst = rate > 0 ? BURST : FLOWS;
    for (uint64_t at = begin; at < end; at = now()) {
        int flow = sent % FLOWS, most = FLOWS - flow < burst ? FLOWS - flow : burst;
        int taken = sendmmsg(fd, messages + flow, most, 0);
        sent += taken > 0 ? taken : 0;
        if (rate > 0) sleep_until(begin + sent / rate * 1e9);
    }
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    printf("{\"sent\": %lu, \"ns\": %lu, \"cpu_ns\": %lu}\n", sent, now() - begin,
           used.tv_sec * 1000000000ul + used.tv_nsec);
}

static void offloads(int is_on) {
    int fd = need(socket(AF_INET, SOCK_DGRAM, 0), "socket"), commands[] = {ETHTOOL_STXCSUM, ETHTOOL_STSO};
    for (int i = 0; i < 2; i++) {
        struct ethtool_value value = {commands[i], is_on};
        struct ifreq request = {.ifr_name = "eth0", .ifr_data = (void *)&value};
        if (ioctl(fd, SIOCETHTOOL, &request) < 0 && is_on) need(-1, "offloads of eth0");
    }
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *what = argc > 2 ? argv[1] : "";
    if (!strcmp(what, "count") && argc == 4)
        count(argv[2], argv[3]);
    else if (!strcmp(what, "flood") && argc == 7)
        flood(argv[2], argv[3], argv[4], atof(argv[5]), atof(argv[6]));
    else if (!strcmp(what, "serve"))
        serve(argv[2]);
    else if (!strcmp(what, "check"))
        check(argv[2]);
    else if (!strcmp(what, "get") && argc == 4)
        get(argv[2], atof(argv[3]));
    else if (!strcmp(what, "ping") && argc == 4)
        ping(argv[2], atoi(argv[3]));
    else if (!strcmp(what, "offloads"))
        offloads(!strcmp(argv[2], "on"));
    else
        fail("usage: load count|flood|serve|check|get|ping|offloads ...; its source says more");
}
