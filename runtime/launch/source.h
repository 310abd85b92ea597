/* The launchers that are known, and the reading of their variables. */
#ifndef TUTTI_RUNTIME_LAUNCH_SOURCE_H
#define TUTTI_RUNTIME_LAUNCH_SOURCE_H

#include "runtime/launch.h"
#include "runtime/status.h"

/* One launcher. Names of variables are alternatives separated by '|', of which the first that is
 * set counts; NULL: it sets none. */
struct tutti_launch_source {
    const char *name;
    const char *by;
    const char
        *present; /* it has started this process if all of these (separated by '+') are set */
    const char *index;
    const char *count;
    const char *local_index;
    const char *local_count;
    const char *host_index;
    const char *host_count;
    /* What a table cannot say; may refuse. */
    int (*finish)(const struct tutti_env *env, struct tutti_launch *launch, struct tutti_err *err);
};

extern const struct tutti_launch_source tutti_launch_sources[]; /* ends with a name of NULL */

bool tutti_launch_present(const struct tutti_env *env, const struct tutti_launch_source *source);

/* All that it says; checked: index below count, and so on. */
int tutti_launch_source_read(const struct tutti_env *env, const struct tutti_launch_source *source,
                             struct tutti_launch *ret, struct tutti_err *err);

/* A variable that is set and not empty, or NULL; the first such of "A|B|C" (up to a '+'), with its
 * name. */
const char *tutti_env_get(const struct tutti_env *env, const char *name);
const char *tutti_env_first(const struct tutti_env *env, const char *names, char ret_name[64]);

/* A number of one of the variables: *ret is untouched where none is set. */
int tutti_env_count(const struct tutti_env *env, const char *names, uint32_t *ret, bool *ret_set,
                    struct tutti_err *err);

/* The launchers whose variables need more than a table. */
int tutti_launch_finish_tf_config(const struct tutti_env *env, struct tutti_launch *launch,
                                  struct tutti_err *err);
/* A type of task as a letter: 'c'hief (and TensorFlow 1's master), 'w'orker, 'p'arameter server,
 * 'e'valuator; 0: none of them. */
char tutti_tf_kind(const char *type);
/* The same, or -TUTTI_EINVAL with those that there are. */
int tutti_tf_find_kind(const char *type, char *ret, struct tutti_err *err);
/* Room for one task more of a list of `count` tasks of so many bytes: *list is grown where *room is
 * used up. -TUTTI_EINVAL beyond TUTTI_TASKS_MAX. */
int tutti_tf_room(void **list, uint32_t count, uint32_t *room, size_t bytes, struct tutti_err *err);

/* Each entry of the cluster of a TF_CONFIG, in the order in which it stands there: its type, its
 * number and its address. */
typedef int tutti_tf_config_entry(void *context, const char *type, uint32_t index,
                                  const char *address, struct tutti_err *err);
int tutti_tf_config_entries(const char *text, tutti_tf_config_entry *entry, void *context,
                            struct tutti_err *err);
/* The same, of a cluster object by itself: what stands behind "cluster". */
int tutti_tf_cluster_entries(const char *text, tutti_tf_config_entry *entry, void *context,
                             struct tutti_err *err);
int tutti_launch_finish_slurm(const struct tutti_env *env, struct tutti_launch *launch,
                              struct tutti_err *err);

#endif
