/* A group over TCP: process 0 listens, the others come to it, and all prove that they know the same
 * secret. Strangers are refused; who is missing at the deadline is named. Every process goes on
 * listening, at a port that all members know: so a group outlives its process 0
 * (tutti_group_shrink), newcomers can join it (tutti_group_tcp_join), and pairs can be opened
 * (runtime/pair.h). */
#ifndef TUTTI_RUNTIME_GROUP_TCP_H
#define TUTTI_RUNTIME_GROUP_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/group.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

/* Zeroed but for size, index, count and root it is good for processes of one host.
 *
 * The secret keeps strangers from joining, and replayed or forged greetings too. Who listens on the
 * way, or at the port of process 0, gets what lets him try guesses at leisure, so that the secret
 * must be drawn at random, and a short one is refused. After the greeting nothing is encrypted and
 * nothing authenticated, neither what the group exchanges nor the data: the secret does not hide
 * what is sent, nor keep out who can change packets on their way between two hosts. */
struct tutti_group_tcp_opts {
    size_t size;    /* sizeof(struct tutti_group_tcp_opts): runtime/api.h */
    uint32_t index; /* of this process */
    uint32_t count; /* of all; 1: nothing is listened to */
    /* Of process 0: "host:port", "10.0.0.1:port" or "[IPv6]:port", the same text everywhere. */
    const char *root;
    /* An interface ("eth0") or an address of this host, to be reached at for the rendezvous
     * (process 0) and for data connections (all). NULL: process 0 listens at the address of root,
     * but on all of this host where root is a name, or an address of none of its interfaces, and
     * the others at the one that leads to root; loopback alone if root is loopback. */
    const char *bind;
    const void *secret;  /* NULL: none; then loopback alone is served */
    size_t secret_bytes; /* TUTTI_GROUP_TCP_SECRET_BYTES_MIN or more */
    bool open_to_all;    /* without a secret, on any address: whoever comes first is let in */
    /* Process 0 listens already: tutti_group_tcp_listen, perhaps in the process that started this
     * one. It is the group's from a successful open on. */
    bool has_listen_fd;
    int listen_fd;
    tutti_ps deadline_ps; /* of open, and of the greeting of data connections; 0: 30 s */
    /* A process that has given no sign of life for so long counts as gone; 0: 30 s. */
    tutti_ps stall_ps;
    /* Told of strangers refused, a line without its end each, in a thread of the group; at most
     * about one a second when there are many. NULL: nobody. */
    void (*log)(void *data, const char *line);
    void *log_data;
    /* Process 0 of a group of one listens, too, so that others can join it (tutti_group_admit).
     * Larger groups can always be joined. */
    bool admits;
    /* These processes meet again, after one of them was lost: who finds process 0 in the group
     * that is over, or waiting for those of that one, is not refused for good, but comes until
     * its deadline. */
    bool again;
};

enum {
    TUTTI_GROUP_TCP_ADDRESS_BYTES = 320,
    TUTTI_GROUP_TCP_COUNT_MAX = 65536,
    TUTTI_GROUP_TCP_SECRET_BYTES_MIN = 16,
};

/* Joins the group: returns when all processes are there. Until it is let in a process waits as long
 * as its own deadline says, from then on as long as that of process 0. -TUTTI_ETIME names those
 * that have not come; -TUTTI_EINVAL where two have the same index, or a process has another count,
 * secret or version (refused with both values, which process 0 logs, and it goes on waiting for the
 * right one). Where one ends before all have come, process 0 stays for up to a second to tell those
 * who come late why. */
int tutti_group_tcp_open(const struct tutti_group_tcp_opts *opts, struct tutti_group **ret,
                         struct tutti_err *err);

/* Asks to be let into a group that has begun, at `root` of opts: where its process 0 listens, or
 * any other member, which sends a newcomer on; index and count do not matter. The secret is proved
 * as at the start. Waits until the members admit it (tutti_group_admit), at most deadline_ps, and
 * comes again where process 0 is lost meanwhile; the new group is as its members have it.
 * -TUTTI_EINVAL: refused, for another secret or version. -TUTTI_ETIME: nobody has admitted it. */
int tutti_group_tcp_join(const struct tutti_group_tcp_opts *opts, struct tutti_group **ret,
                         struct tutti_err *err);

/* Where newcomers find process 0 of this group, as this process reaches it, written to ret
 * (TUTTI_GROUP_TCP_ADDRESS_BYTES), which is returned: another address than that of the start once
 * the first process 0 is lost. After that newcomers are let in at the first address as well if the
 * new process 0 is on the same host. "" where nothing is listened to. */
const char *tutti_group_tcp_address(const struct tutti_group *group, char *ret);

/* How many newcomers wait at this process, which lets them in with the others (tutti_group_admit);
 * 0 but for process 0. */
uint32_t tutti_group_tcp_newcomers(const struct tutti_group *group);

/* Listens as process 0 would, by root, bind, secret and open_to_all of opts; port 0 takes a free
 * one. ret_address (TUTTI_GROUP_TCP_ADDRESS_BYTES) is what to give as root to all processes: with
 * bind the address that it stands for, else the host of root. */
int tutti_group_tcp_listen(const struct tutti_group_tcp_opts *opts, int *ret_fd, char *ret_address,
                           struct tutti_err *err);

/* A data connection to another process. The peer wants the same with this process and this key;
 * several with one peer differ in their keys. */
struct tutti_group_tcp_link {
    uint32_t peer; /* process, not this one */
    uint64_t key;
};

/* Collective, also for processes that want none (0): makes the connections that are wanted, each
 * between two processes that have proved to be of this group. ret_fds[i], the caller's, belongs to
 * wanted[i]: connected, non-blocking, close-on-exec, TCP_NODELAY. Fails in all processes, with one
 * message, where it fails in one; then the group is over. */
int tutti_group_tcp_links(struct tutti_group *group, const struct tutti_group_tcp_link *wanted,
                          size_t count, int *ret_fds, tutti_ps deadline_ps, struct tutti_err *err);

TUTTI_API_END

#endif
