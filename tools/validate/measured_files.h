/* Where the tables of measurements lie on this machine, and all of them read. */
#ifndef TUTTI_TOOLS_VALIDATE_MEASURED_FILES_H
#define TUTTI_TOOLS_VALIDATE_MEASURED_FILES_H

struct tutti_err;
struct tutti_measured;

/* The folder they are looked for in: $TUTTI_MEASURED_DIR; else that of the sources of this build;
 * else where it installs them. NULL: none of them is there. */
const char *tutti_measured_folder(void);

/* Reads every *.measured of the folder `path`, in the order of their names, or the one file that
 * it is, into the empty set. */
int tutti_measured_load(const char *path, struct tutti_measured *ret, struct tutti_err *err);

#endif
