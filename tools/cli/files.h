/* Whole files in and out; what a name is wrong about is said in the message. */
#ifndef TUTTI_TOOLS_CLI_FILES_H
#define TUTTI_TOOLS_CLI_FILES_H

#include <stddef.h>

struct tutti_sink;

struct tutti_err;

/* Statuses: -TUTTI_EINVAL where the name is wrong (nothing there, a directory, not permitted, too
 * large), -TUTTI_EIO where the system fails under way. */

/* The largest file that is read: 1 GiB. */
#define TUTTI_FILE_BYTES_MAX ((size_t)1 << 30)

/* Reads a whole file, or stdin if `path` is "-". *ret_text is the caller's (free()); one zero
 * stands behind its *ret_bytes bytes. Refuses directories and what is larger than 1 GiB. */
int tutti_file_read(const char *path, char **ret_text, size_t *ret_bytes, struct tutti_err *err);

/* Writes a whole file, or stdout if `path` is "-". A file is written beside and renamed when it is
 * complete, so that an old one is lost in no case; devices and pipes are written as they are. */
int tutti_file_write(const char *path, const char *text, size_t bytes, struct tutti_sink *sink,
                     struct tutti_err *err);

/* Fails as tutti_file_write would, as far as can be told before there is anything to write: for who
 * works long for what is to be written. */
int tutti_file_check_target(const char *path, struct tutti_err *err);

#endif
