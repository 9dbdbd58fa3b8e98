// SPDX-License-Identifier: MIT OR Apache-2.0
// packet-socket: AF_PACKET on the interfaces themselves, several packets per system call.
#define _GNU_SOURCE
#include "ways.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

static uint8_t packets[BATCH][LONGEST];

int open_frame_socket(const struct side *side, int protocol) {
    int fd = need(socket(AF_PACKET, SOCK_RAW, 0), "a packet socket"), yes = 1, buffer = 8 << 20;
    need(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer), "SO_RCVBUFFORCE");
    need(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes), "PACKET_VNET_HDR");
    need(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes), "PACKET_IGNORE_OUTGOING");
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = side->index};
    need(bind(fd, (struct sockaddr *)&at, sizeof at), "bind");
    return fd;
}

void send_frames(int out, struct mmsghdr *messages, int count) {
    for (int sent = 0; sent < count;) {
        int now = sendmmsg(out, messages + sent, count - sent, 0);
        *(now > 0 ? &counts.forwarded : &counts.refused) += now > 0 ? now : 1;
        sent += now > 0 ? now : 1;
    }
}

static int forward(int in, int out, const struct side *to) {
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){packets[i], LONGEST};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int read = recvmmsg(in, messages, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < read; i++) {
        parts[i].iov_len = messages[i].msg_len;
        memcpy(packets[i] + VNET, to->next, 6);
        memcpy(packets[i] + VNET + 6, to->own, 6);
    }
    send_frames(out, messages, read);
    return read > 0 ? read : 0;
}

void packet_socket_way(const struct box *box) {
    struct pollfd in[2];
    int out[2];
    for (int i = 0; i < 2; i++) {
        in[i] = (struct pollfd){.fd = open_frame_socket(&box->side[i], ETH_P_ALL), .events = POLLIN};
        out[i] = open_frame_socket(&box->side[i], 0);
        drop_at(&box->side[i]);
    }
    ready();
    for (;;) {
        int seen = 0;
        for (int from = 0; from < 2; from++) seen += forward(in[from].fd, out[!from], &box->side[!from]);
        if (!seen) poll(in, 2, -1);
    }
}
