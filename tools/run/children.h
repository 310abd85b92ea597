/* The processes that a command starts, and leaves none of behind: their words are passed on, the
 * first that fails ends all, and so does a signal to the command. */
#ifndef TUTTI_TOOLS_RUN_CHILDREN_H
#define TUTTI_TOOLS_RUN_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/status.h"
#include "runtime/units.h"
#include "tools/sink.h"

struct tutti_children;

#define TUTTI_CHILDREN_NONE UINT32_MAX

/* Makes ready for `count` children. From here to the end of wait the signals that end a command
 * (INT, TERM, HUP) end the children first. Messages begin with "tutti COMMAND: ";
 * `command` and `sink` are borrowed until then. */
int tutti_children_new(const char *command, uint32_t count, struct tutti_sink *sink,
                       struct tutti_children **ret, struct tutti_err *err);

/* Starts the next child, a copy of this process: *ret_child is true there, and all of `children`
 * has been undone. It dies with this process, and has a process group of its own. Child 0 keeps the
 * outputs; of the others every line is passed on to the sink's notes behind the child's number.
 * Where the sink is no file, of child 0 as well, and its results are passed on as they are. In a
 * child the sink prints to its descriptors 1 and 2. Input is empty for all. */
int tutti_children_start(struct tutti_children *children, bool *ret_child, struct tutti_err *err);

/* What a SIGTERM to the command means to its children: it is passed on, and they have `time_ps` to
 * save what they have and end. Where all of them end with the same code, not 0, the command ends
 * with that as well, not by the signal. */
void tutti_children_let_save(struct tutti_children *children, tutti_ps time_ps);

/* A child that is lost is started again, at most `count` times in all, which is said each time: one
 * that a signal has ended, or that has ended with a code which is no command's own (0, 1, 2, 77,
 * nor `stop_code`). Not once a child has ended well, for then what they did is done, nor while all
 * are ending. */
void tutti_children_restart(struct tutti_children *children, uint32_t count, int stop_code);

/* Before any is started: where one is lost, or ends with `stop_code`, the others go on without it
 * as long as `least` of them (1 or more) are left. Any of them may print results, then. */
void tutti_children_spare(struct tutti_children *children, uint32_t least, int stop_code);

/* Where one of the `count` from number `first` on is lost, and is not started again, all others go
 * on as long as `least` of these are left; that is said. Who prints stays who it is. Once one has
 * ended well, likewise. */
void tutti_children_spare_some(struct tutti_children *children, uint32_t first, uint32_t count,
                               uint32_t least);

/* What they are called where it is said that one is lost, beside their number. */
typedef void (*tutti_children_name_fn)(const void *context, uint32_t index, char *buf,
                                       size_t buf_bytes);
void tutti_children_call(struct tutti_children *children, tutti_children_name_fn name,
                         const void *context);

/* Waits for all. When one fails, the others have `grace_ps` to end by themselves, having something
 * to say of it; then they are asked to (TERM), then made to (KILL): at once where only stopped ones
 * (SIGSTOP) are left. 0 if all ended with 0; else what the first to fail ended with, 1 where a
 * signal ended it, which is said. Where a signal has ended this command, does not return. Frees the
 * children. */
int tutti_children_wait(struct tutti_children *children, tutti_ps grace_ps);

/* The same where children may be started again. In one that is, it returns 0 and its number: the
 * state of the command is that in which the first ones were started. Else TUTTI_CHILDREN_NONE. */
int tutti_children_keep(struct tutti_children *children, tutti_ps grace_ps, uint32_t *ret_again);

#endif
