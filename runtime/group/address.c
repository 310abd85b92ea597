/* Addresses of hosts and interfaces, but for looking names up (resolve.c). */
#include "runtime/group/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/status.h"

int tutti_address_split(const char *text, char *ret_host, uint16_t *ret_port, struct tutti_err *err)
{
    const char *colon = strrchr(text, ':');
    const char *host = text;
    size_t host_bytes;
    unsigned long port;
    char *end;

    if (colon == NULL || colon == text || colon[1] < '0' || colon[1] > '9')
        return tutti_fail(err, TUTTI_EINVAL,
                          "no address '%.300s' (host:port, 10.0.0.1:5000 or [IPv6]:port)", text);
    host_bytes = (size_t)(colon - text);
    port = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || end - colon > 6 || port > UINT16_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "no port '%.60s' in '%.300s' (0 to 65535)", colon + 1,
                          text);
    if (text[0] == '[' && colon[-1] == ']') {
        host++;
        host_bytes -= 2;
    } else if (memchr(text, ':', host_bytes) != NULL || text[0] == '[') {
        return tutti_fail(err, TUTTI_EINVAL, "no address '%.300s' (an IPv6 one is [IPv6]:port)",
                          text);
    }
    if (memchr(host, '[', host_bytes) != NULL || memchr(host, ']', host_bytes) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "brackets out of place in '%.300s' ([IPv6]:port)",
                          text);
    if (host_bytes == 0 || host_bytes >= TUTTI_HOST_BYTES)
        return tutti_fail(err, TUTTI_EINVAL, "no host of 1 to %d bytes in '%.300s'",
                          TUTTI_HOST_BYTES - 1, text);
    memcpy(ret_host, host, host_bytes);
    ret_host[host_bytes] = '\0';
    *ret_port = (uint16_t)port;
    return 0;
}

/* Better ones have higher figures; 0: not to be used. */
static int merit(const struct sockaddr *address, int family)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

    if (address == NULL || (family != AF_UNSPEC && address->sa_family != family))
        return 0;
    if (address->sa_family == AF_INET)
        return 3;
    if (address->sa_family != AF_INET6)
        return 0;
    return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? 1 : 2;
}

static int find_interface(const char *name, int family, struct tutti_address *ret,
                          struct tutti_err *err)
{
    struct ifaddrs *list = NULL;
    char seen[300] = "";
    size_t seen_bytes = 0;
    int best = 0;

    if (getifaddrs(&list) != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot list interfaces: %s", strerror(errno));
    for (const struct ifaddrs *one = list; one != NULL; one = one->ifa_next) {
        int is = merit(one->ifa_addr, family);

        if (is > 0 && seen_bytes + strlen(one->ifa_name) + 2 < sizeof(seen) &&
            strstr(seen, one->ifa_name) == NULL)
            seen_bytes += (size_t)snprintf(seen + seen_bytes, sizeof(seen) - seen_bytes, "%s%s",
                                           seen_bytes > 0 ? " " : "", one->ifa_name);
        if (strcmp(one->ifa_name, name) != 0 || is <= best)
            continue;
        best = is;
        memset(ret, 0, sizeof(*ret));
        ret->bytes = one->ifa_addr->sa_family == AF_INET ? sizeof(ret->as.v4) : sizeof(ret->as.v6);
        memcpy(&ret->as, one->ifa_addr, ret->bytes);
    }
    freeifaddrs(list);
    if (best == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no interface '%.100s' with a fitting address (an address, or one of %s)",
                          name, seen);
    return 0;
}

bool tutti_address_of_numbers(const char *host, struct tutti_address *ret)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    memset(ret, 0, sizeof(*ret));
    memcpy(&ret->as, list->ai_addr, list->ai_addrlen);
    ret->bytes = list->ai_addrlen;
    freeaddrinfo(list);
    return true;
}

bool tutti_address_is_own(const struct tutti_address *address)
{
    struct tutti_address any_port = *address;
    int fd = socket(address->as.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool own;

    tutti_address_set_port(&any_port, 0);
    own = fd >= 0 && bind(fd, &any_port.as.any, any_port.bytes) == 0;
    if (fd >= 0)
        close(fd);
    return own;
}

bool tutti_address_towards(const struct tutti_address *to, struct tutti_address *ret)
{
    int fd = socket(to->as.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool known = fd >= 0 && connect(fd, &to->as.any, to->bytes) == 0;

    if (known)
        tutti_address_of_socket(fd, ret);
    if (known)
        tutti_address_set_port(ret, 0);
    if (fd >= 0)
        close(fd);
    return known;
}

int tutti_address_of_interface(const char *bind_to, int family, struct tutti_address *ret,
                               struct tutti_err *err)
{
    struct tutti_address found;
    int status = 0;

    if (tutti_address_of_numbers(bind_to, &found)) {
        if (merit(&found.as.any, family) == 0)
            return tutti_fail(err, TUTTI_EINVAL, "address '%.100s' is not of %s, as process 0 is",
                              bind_to, family == AF_INET ? "IPv4" : "IPv6");
    } else {
        status = find_interface(bind_to, family, &found, err);
    }
    if (status == 0)
        *ret = found;
    return status;
}

void tutti_address_any(int family, bool loopback, struct tutti_address *ret)
{
    assert(family == AF_INET || family == AF_INET6);
    memset(ret, 0, sizeof(*ret));
    ret->as.any.sa_family = (sa_family_t)family;
    if (family == AF_INET) {
        ret->bytes = sizeof(ret->as.v4);
        ret->as.v4.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    } else {
        ret->bytes = sizeof(ret->as.v6);
        ret->as.v6.sin6_addr = loopback ? in6addr_loopback : in6addr_any;
    }
}

bool tutti_address_is_loopback(const struct tutti_address *address)
{
    uint8_t packed[16];

    tutti_address_pack(address, packed);
    if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)packed))
        return packed[12] == 127;
    return memcmp(packed, &in6addr_loopback, sizeof(packed)) == 0;
}

bool tutti_host_is_loopback(const char *host)
{
    uint8_t packed[16];

    if (strcmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, packed) == 1)
        return packed[0] == 127;
    return inet_pton(AF_INET6, host, packed) == 1 &&
           memcmp(packed, &in6addr_loopback, sizeof(packed)) == 0;
}

uint16_t tutti_address_port(const struct tutti_address *address)
{
    return ntohs(address->as.any.sa_family == AF_INET6 ? address->as.v6.sin6_port
                                                       : address->as.v4.sin_port);
}

void tutti_address_set_port(struct tutti_address *address, uint16_t port)
{
    if (address->as.any.sa_family == AF_INET6)
        address->as.v6.sin6_port = htons(port);
    else
        address->as.v4.sin_port = htons(port);
}

bool tutti_address_same(const struct tutti_address *a, const struct tutti_address *b)
{
    uint8_t left[16];
    uint8_t right[16];

    tutti_address_pack(a, left);
    tutti_address_pack(b, right);
    return memcmp(left, right, sizeof(left)) == 0 && tutti_address_port(a) == tutti_address_port(b);
}

void tutti_address_pack(const struct tutti_address *address, uint8_t ret[16])
{
    memset(ret, 0, 16);
    if (address->as.any.sa_family == AF_INET6) {
        memcpy(ret, &address->as.v6.sin6_addr, 16);
    } else if (address->as.any.sa_family == AF_INET) {
        ret[10] = ret[11] = 0xff;
        memcpy(ret + 12, &address->as.v4.sin_addr, 4);
    }
}

void tutti_address_unpack(const uint8_t from[16], uint16_t port, uint32_t scope,
                          struct tutti_address *ret)
{
    struct in6_addr in6;

    memcpy(&in6, from, sizeof(in6));
    memset(ret, 0, sizeof(*ret));
    if (IN6_IS_ADDR_V4MAPPED(&in6)) {
        ret->bytes = sizeof(ret->as.v4);
        ret->as.v4.sin_family = AF_INET;
        memcpy(&ret->as.v4.sin_addr, from + 12, 4);
    } else {
        ret->bytes = sizeof(ret->as.v6);
        ret->as.v6.sin6_family = AF_INET6;
        ret->as.v6.sin6_addr = in6;
        if (IN6_IS_ADDR_LINKLOCAL(&in6))
            ret->as.v6.sin6_scope_id = scope;
    }
    tutti_address_set_port(ret, port);
}

const char *tutti_address_text(const struct tutti_address *address, char *text)
{
    struct tutti_address plain;
    uint8_t packed[16];
    char host[INET6_ADDRSTRLEN] = "?";
    bool v4;

    tutti_address_pack(address, packed);
    tutti_address_unpack(packed, tutti_address_port(address), 0, &plain);
    v4 = plain.as.any.sa_family == AF_INET;
    (void)inet_ntop(v4 ? AF_INET : AF_INET6,
                    v4 ? (void *)&plain.as.v4.sin_addr : (void *)&plain.as.v6.sin6_addr, host,
                    sizeof(host));
    snprintf(text, TUTTI_ADDRESS_TEXT_BYTES, v4 ? "%s:%u" : "[%s]:%u", host,
             tutti_address_port(address));
    return text;
}

void tutti_address_of_socket(int fd, struct tutti_address *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->bytes = sizeof(ret->as);
    (void)getsockname(fd, &ret->as.any, &ret->bytes);
}

void tutti_address_of_peer(int fd, struct tutti_address *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->bytes = sizeof(ret->as);
    (void)getpeername(fd, &ret->as.any, &ret->bytes);
}

bool tutti_address_same_host(const struct tutti_address *a, const struct tutti_address *b)
{
    uint8_t left[16];
    uint8_t right[16];

    tutti_address_pack(a, left);
    tutti_address_pack(b, right);
    return memcmp(left, right, sizeof(left)) == 0 || tutti_address_is_loopback(a) ||
           tutti_address_is_loopback(b);
}

static bool stays_here(int fd)
{
    struct tutti_address own;
    struct tutti_address peer;

    tutti_address_of_socket(fd, &own);
    tutti_address_of_peer(fd, &peer);
    return tutti_address_same_host(&own, &peer);
}

/* Every system has it, and permits it to everybody. */
static const char unpaced[] = "reno";

void tutti_socket_unpaced(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof(unpaced) - 1);
}

/* Between hosts congestion is the system's affair. */
static void give_back_pace(int fd)
{
    enum { NAME_BYTES = 16 };
    char name[NAME_BYTES] = "";
    socklen_t bytes = sizeof(name);
    int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fresh >= 0 && getsockopt(fresh, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strnlen(name, bytes));
    if (fresh >= 0)
        close(fresh);
}

int tutti_address_listen(const struct tutti_address *address, int *ret_fd, struct tutti_err *err)
{
    enum { BACKLOG = 1024 };
    static const int on = 1;
    static const int off = 0;
    char text[TUTTI_ADDRESS_TEXT_BYTES];
    int fd = socket(address->as.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return tutti_fail(err, TUTTI_EIO, "cannot open a socket for %s: %s",
                          address->as.any.sa_family == AF_INET ? "IPv4" : "IPv6", strerror(errno));
    /* The port of a run that has just ended may be taken again. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    tutti_socket_unpaced(fd);
    if (address->as.any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, &address->as.any, address->bytes) != 0 || listen(fd, BACKLOG) != 0) {
        int status = tutti_fail(err, TUTTI_EIO, "cannot listen at '%s': %s",
                                tutti_address_text(address, text), strerror(errno));
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return 0;
}

void tutti_socket_tune(int fd, uint32_t silence_ms, bool patient)
{
    static const int on = 1;
    int idle_s = (int)(silence_ms / 3000) + 1;
    int count = 2;

    /* Best effort: without them all works, only the half-open peer is found later. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    if (!patient)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
    if (!stays_here(fd))
        give_back_pace(fd);
}
