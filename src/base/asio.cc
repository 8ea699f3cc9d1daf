// Asio compiled once instead of in every file that includes it.
#include <boost/asio/impl/src.hpp>
