/* Addresses: read, resolved, printed, listened at. Private to runtime/group. */
#ifndef TUTTI_RUNTIME_GROUP_ADDRESS_H
#define TUTTI_RUNTIME_GROUP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "runtime/units.h"

struct tutti_err;

enum { TUTTI_HOST_BYTES = 256, TUTTI_ADDRESS_TEXT_BYTES = 80 };

struct tutti_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } as;
    socklen_t bytes;
};

/* "host:port" or "[IPv6]:port" into its parts; ret_host has TUTTI_HOST_BYTES. */
int tutti_address_split(const char *text, char *ret_host, uint16_t *ret_port,
                        struct tutti_err *err);

/* The address of host whose number in the resolver's list is `skip`, from 0. -TUTTI_EIO when there
 * is none, none any more, or when it has not been found within wait_ps. */
int tutti_address_resolve(const char *host, uint16_t port, uint32_t skip, tutti_ps wait_ps,
                          struct tutti_address *ret, struct tutti_err *err);

/* "10.0.0.1", "::1" or "fe80::1%eth0", with port 0; false: a name. */
bool tutti_address_of_numbers(const char *host, struct tutti_address *ret);

/* Whether one can listen there: not at an address of another host, or of a router before this one.
 */
bool tutti_address_is_own(const struct tutti_address *address);

/* Of this host, the one that connections to `to` would come from, with port 0; false: none would.
 * Nothing is sent. */
bool tutti_address_towards(const struct tutti_address *to, struct tutti_address *ret);

/* An interface's address, or a numeric one, of this host. family: AF_INET, AF_INET6, or AF_UNSPEC
 * (then IPv4 before IPv6). */
int tutti_address_of_interface(const char *bind, int family, struct tutti_address *ret,
                               struct tutti_err *err);

void tutti_address_any(int family, bool loopback, struct tutti_address *ret); /* port 0 */

bool tutti_address_is_loopback(const struct tutti_address *address);
bool tutti_host_is_loopback(const char *host); /* a numeric loopback address, or localhost */

uint16_t tutti_address_port(const struct tutti_address *address);
void tutti_address_set_port(struct tutti_address *address, uint16_t port);
bool tutti_address_same(const struct tutti_address *a, const struct tutti_address *b);
/* Whether the ends of a connection lie on one host for sure, whatever their ports: at one address,
 * or one of them at loopback, of which a host's own name is often another address than the ways to
 * it have (127.0.1.1 and 127.0.0.1). */
bool tutti_address_same_host(const struct tutti_address *a, const struct tutti_address *b);

/* As 16 bytes, IPv4 as ::ffff:a.b.c.d; and back (scope: the interface of link-local ones). */
void tutti_address_pack(const struct tutti_address *address, uint8_t ret[16]);
void tutti_address_unpack(const uint8_t from[16], uint16_t port, uint32_t scope,
                          struct tutti_address *ret);

/* "10.0.0.1:4242", "[::1]:4242"; text has TUTTI_ADDRESS_TEXT_BYTES; returned for convenience. */
const char *tutti_address_text(const struct tutti_address *address, char *text);

void tutti_address_of_socket(int fd, struct tutti_address *ret); /* its own */
void tutti_address_of_peer(int fd, struct tutti_address *ret);

/* Before it is connected, or listens. Where bytes do not leave the host no network is congested,
 * and who paces them by timers, as BBR, waits for nothing: messages take up to twice as long, and
 * each time otherwise. A socket that has begun to pace never stops, so all begin without; of those
 * that lead elsewhere tutti_socket_tune takes it back. */
void tutti_socket_unpaced(int fd);

/* A listening socket, non-blocking, close-on-exec and unpaced. IPv6's "any" takes IPv4 too. */
int tutti_address_listen(const struct tutti_address *address, int *ret_fd, struct tutti_err *err);

/* Connected sockets. Small messages at once; a host that vanishes is noticed after about so long.
 * patient: a peer that lives and does not read may take any time; else it has as long. */
void tutti_socket_tune(int fd, uint32_t silence_ms, bool patient);

#endif
