/* The processes that a launcher has started meet: a group over TCP, found by the launcher's own
 * variables (launch.h), with nothing said beside them. */
#ifndef TUTTI_RUNTIME_MEET_H
#define TUTTI_RUNTIME_MEET_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/api.h"
#include "runtime/group_tcp.h"
#include "runtime/launch.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_group;

enum { TUTTI_MEET_SECRET_BYTES = 256 };

/* TUTTI_SECRET of the environment, "" where it is not set. -TUTTI_EINVAL: it can be guessed, or is
 * too long. */
int tutti_meet_secret(const struct tutti_env *env, char ret[TUTTI_MEET_SECRET_BYTES],
                      struct tutti_err *err);
/* One that is drawn at random. */
int tutti_meet_draw_secret(char ret[TUTTI_MEET_SECRET_BYTES], struct tutti_err *err);

struct tutti_meet_opts {
    size_t size;                       /* sizeof(struct tutti_meet_opts): runtime/api.h */
    const struct tutti_env *env;       /* NULL: of this process */
    const struct tutti_launch *launch; /* a member of so many processes */
    /* HOST:PORT of process 0. NULL or "": as the launcher says, or else process 0 listens at any
     * port, and the launcher carries the address (and a secret, if there is none) to the others. */
    const char *root;
    const char *bind;   /* as in struct tutti_group_tcp_opts */
    const char *secret; /* NULL or "": none */
    bool open_to_all;   /* likewise */
    bool has_listen_fd; /* likewise, with `root` */
    int listen_fd;
    tutti_ps deadline_ps; /* 0: 30 s */
    void (*log)(void *data, const char *line);
    void *log_data;
    /* Carries a word from process 0 to the others where tutti_launch_share cannot: PMIx. NULL:
     * nothing else can. */
    int (*share)(const struct tutti_launch *launch, char word[TUTTI_LAUNCH_SHARE_BYTES],
                 tutti_ps deadline_ps, struct tutti_err *err);
    bool again;  /* as in struct tutti_group_tcp_opts; `root` must be known, then */
    bool admits; /* likewise */
};

/* Collective. -TUTTI_EINVAL also where nobody says where process 0 is. What failed has closed
 * listen_fd. */
int tutti_meet(const struct tutti_meet_opts *opts, struct tutti_group **ret, struct tutti_err *err);

TUTTI_API_END

#endif
