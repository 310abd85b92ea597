# The page's program links the shared library.
add_dependencies(readme_test tutti tutti_shared)
