/* Children from inside: what is known of each. Private to this room. */
#ifndef TUTTI_TOOLS_RUN_CHILDREN_INSIDE_H
#define TUTTI_TOOLS_RUN_CHILDREN_INSIDE_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#include "tools/run/children.h"

enum { CHILDREN_LINE_BYTES = 2048 };

struct tutti_child {
    pid_t id;     /* 0: not started, or ended and waited for */
    bool stopped; /* by a signal, until it is continued: it can neither end nor say anything */
    bool ended;   /* with `status`, which has not been looked at yet */
    bool lost;    /* and is to be started again */
    int status;
    int outputs; /* the end to read from, or -1 */
    int errors;  /* of why it fails, likewise */
    int results; /* of one that prints, where the sink is no file, likewise */
    size_t used;
    char line[CHILDREN_LINE_BYTES];
};

struct tutti_children {
    const char *command;
    struct tutti_sink *sink;
    uint32_t count;
    uint32_t started;
    uint32_t alive;
    int signals;            /* of signalfd: INT, TERM, HUP, CHLD */
    sigset_t mask;          /* before */
    int code;               /* of the first that failed */
    bool told;              /* why it has; the others fail for it, and theirs is not told */
    int ended_by;           /* the signal that ends this command, or 0 */
    int64_t ask_ms;         /* when those that are left are asked to end; 0: not yet */
    int64_t kill_ms;        /* and made to */
    int64_t save_ms;        /* that a SIGTERM leaves them; 0: what any signal does */
    bool alike;             /* all that have ended did so with `code` */
    uint32_t restarts;      /* made */
    uint32_t restarts_most; /* allowed */
    uint32_t least;         /* so many may go on without the others; 0: all or none */
    uint32_t some_first;    /* of those that all others can do without, */
    uint32_t some_count;    /* how many they are */
    uint32_t some_least;    /* and how many must be left */
    uint32_t some_lost;
    uint32_t spared;             /* are gone, and the others go on */
    int stop_code;               /* of one that has stopped as it was told to */
    tutti_children_name_fn name; /* or NULL */
    const void *name_context;
    bool over; /* one has ended well: what the others do is as good as done */
    struct tutti_child *children;
    struct pollfd *polled; /* [2 * count + 1]: words of the children, their results, signals */
};

static inline void children_close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- their words (children_words.c) ---- */

/* What has come of one: its words, line by line, and its results. */
void tutti_children_pass_words(struct tutti_children *children, uint32_t index);
void tutti_children_pass_results(struct tutti_children *children, uint32_t index);
/* What is left in the pipes; a grandchild may hold them open, which is not waited for. */
void tutti_children_drain(struct tutti_children *children, uint32_t index);

#endif
