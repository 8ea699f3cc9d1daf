#include "redis/parser.h"

#include <doctest/doctest.h>
