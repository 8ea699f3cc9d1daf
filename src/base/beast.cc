// Compiles Beast once, instead of in every file that includes it.
#include <boost/beast/src.hpp>
