// SPDX-License-Identifier: MIT OR Apache-2.0
// tun: one read and one write per packet.
#include "ways.h"

#include <poll.h>
#include <unistd.h>

static uint8_t packet[LONGEST];

void tun_way(const struct box *box) {
    const char *names[] = {"ways-wired", "ways-mobile"};
    struct pollfd tuns[2];
    for (int i = 0; i < 2; i++) tuns[i] = (struct pollfd){.fd = open_tun(names[i], 0), .events = POLLIN};
    for (int i = 0; i < 2; i++) take_into(index_of(names[i]), &box->side[i]);
    ready();
    for (;;) {
        int seen = 0;
        for (int from = 0; from < 2; from++) {
            ssize_t len;
            for (int n = 0; n < BATCH && (len = read(tuns[from].fd, packet, sizeof packet)) > 0; n++, seen++)
                write_packet(tuns[!from].fd, packet, len);
        }
        if (!seen) poll(tuns, 2, -1);
    }
}
