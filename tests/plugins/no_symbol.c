/* A shared object that is no plugin. */
extern const int tutti_plugging;

const int tutti_plugging = 1;
