#include "redis/reply.h"

#include <doctest/doctest.h>
