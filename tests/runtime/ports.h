/* Ports for tests that listen later than others connect. */
#ifndef TUTTI_TESTS_RUNTIME_PORTS_H
#define TUTTI_TESTS_RUNTIME_PORTS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/random.h"

/* A port that nobody has; below those that the system gives out by itself. */
static inline uint16_t test_free_port(uint64_t seed)
{
    for (uint32_t i = 0; i < 1000; i++) {
        uint16_t port =
            (uint16_t)(20000 + tutti_random_hash(seed, (uint64_t)getpid(), i, 1) % 12000);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int one = 1;
        bool bound;

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        bound = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
        close(fd);
        if (bound)
            return port;
    }
    return 0;
}

#endif
