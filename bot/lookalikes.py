"""Letters and digits that look like ASCII ones, made by tests/lookalikes.py: not edited.

Derived from confusables.txt, version 13.0.0, Copyright (c) 1991-2020 Unicode, Inc., under the
Unicode Licence (https://www.unicode.org/license.txt), which asks for this notice."""

from __future__ import annotations

from typing import Final

LOOKALIKES: Final = {
    "2": "\u03e8\u14bf\ua644\ua6ef",
    "3": "\u0417\u04de\u04e0\u2ccc\U000118ca\U00016f3b",
    "4": "\u13ce\U000118af",
    "5": "\U000118bb",
    "6": "\u0431\u13ee\u2cd2\U000118d5",
    "7": "\U000104d2\U000118c6",
    "8": "\u09ea\u0a6a\U0001031a\U0001e8cb",
    "9": "\u09ed\u0a67\u0b68\u0d6d\u2cca\U000118ac\U000118cc\U000118d6",
    "A": (
        "\u0386\u0391\u0410\u04d0\u04d2\u13aa\u15c5\u1f08\u1f09\u1f0a\u1f0b\u1f0c\u1f0d"
        "\u1f0e\u1f0f\u1f88\u1f89\u1f8a\u1f8b\u1f8c\u1f8d\u1f8e\u1f8f\u1fb8\u1fb9\u1fba"
        "\u1fbb\u1fbc\ua4ee\U000102a0\U00016f40"
    ),
    "B": "\u0392\u0412\u13f4\u15f7\ua4d0\U00010282\U000102a1\U00010301",
    "C": (
        "\u03f9\u0421\u13df\u2ca4\ua4da\U000102a2\U00010302\U00010415\U0001051c\U000118e9\U000118f2"
    ),
    "D": "\u13a0\u15de\u15ea\ua4d3",
    "E": (
        "\u0388\u0395\u0400\u0401\u0415\u04d6\u13ac\u1f18\u1f19\u1f1a\u1f1b\u1f1c\u1f1d"
        "\u1fc8\u1fc9\u2d39\ua4f0\U00010286\U000118a6\U000118ae"
    ),
    "F": "\u03dc\u15b4\ua4dd\U00010287\U000102a5\U00010525\U000118a2\U000118c2",
    "G": "\u050c\u13c0\u13f3\ua4d6",
    "H": (
        "\u0389\u0397\u041d\u13bb\u157c\u1f28\u1f29\u1f2a\u1f2b\u1f2c\u1f2d\u1f2e\u1f2f"
        "\u1f98\u1f99\u1f9a\u1f9b\u1f9c\u1f9d\u1f9e\u1f9f\u1fca\u1fcb\u1fcc\u2c8e\ua4e7"
        "\U000102cf"
    ),
    "J": "\u037f\u0408\u13ab\u148d\ua4d9",
    "K": "\u039a\u040c\u041a\u13e6\u16d5\u2c94\ua4d7\U00010518",
    "L": "\u13de\u14aa\u2cd0\ua4e1\U0001041b\U00010526\U000118a3\U000118b2\U00016f16",
    "M": "\u039c\u03fa\u041c\u13b7\u15f0\u16d6\u2c98\ua4df\U000102b0\U00010311",
    "N": "\u039d\u2c9a\ua4e0\U00010513",
    "O": (
        "\u038c\u039f\u041e\u04e6\u0555\u07c0\u09e6\u0b20\u0b66\u12d0\u1f48\u1f49\u1f4a"
        "\u1f4b\u1f4c\u1f4d\u1ff8\u1ff9\u2c9e\u2d54\ua4f3\U00010292\U000102ab\U00010404"
        "\U000104c2\U00010516\U000114d0\U000118b5\U000118e0"
    ),
    "P": "\u03a1\u0420\u13e2\u146d\u1fec\u2ca2\ua4d1\U00010295",
    "Q": "\u2d55",
    "R": "\u13a1\u13d2\u1587\ua4e3\U000104b4\U00016f35",
    "S": "\u0405\u054f\u13d5\u13da\ua4e2\U00010296\U00010420\U00016f3a",
    "T": "\u03a4\u0422\u13a2\u2ca6\ua4d4\U00010297\U000102b1\U00010315\U000118bc\U00016f0a",
    "U": "\u054d\u1200\u144c\ua4f4\U000104ce\U000118b8\U00016f42",
    "V": ("\u0474\u0476\u0667\u06f7\u13d9\u142f\u2d38\ua4e6\ua6df\U0001051d\U000118a0\U00016f08"),
    "W": "\u051c\u13b3\u13d4\ua4ea\U000118e6\U000118ef",
    "X": (
        "\u03a7\u0425\u16b7\u2cac\u2d5d\ua4eb\U00010290\U000102b4\U00010317\U00010322"
        "\U00010527\U000118ec"
    ),
    "Y": (
        "\u038e\u03a5\u03ab\u03d2\u03d3\u03d4\u040e\u0423\u04ae\u04ee\u04f0\u04f2\u13a9"
        "\u13bd\u1f59\u1f5b\u1f5d\u1f5f\u1fe8\u1fe9\u1fea\u1feb\u2ca8\ua4ec\U000102b2"
        "\U000118a4\U00016f43"
    ),
    "Z": "\u0396\u13c3\ua4dc\U000102f5\U000118a9\U000118e5",
    "a": (
        "\u0251\u03ac\u03b1\u0430\u04d1\u04d3\u1f00\u1f01\u1f02\u1f03\u1f04\u1f05\u1f06"
        "\u1f07\u1f70\u1f71\u1f80\u1f81\u1f82\u1f83\u1f84\u1f85\u1f86\u1f87\u1fb0\u1fb1"
        "\u1fb2\u1fb3\u1fb4\u1fb6\u1fb7"
    ),
    "b": "\u042c\u13cf\u1472\u15af",
    "c": "\u03f2\u0441\u1d04\u2ca5\uabaf\U0001043d",
    "d": "\u0501\u13e7\u146f\ua4d2",
    "e": "\u0435\u0450\u0451\u04bd\u04d7\uab32",
    "f": "\u0584\uab35",
    "g": "\u0261\u0581\u1d83",
    "h": "\u04bb\u0570\u13c2",
    "i": (
        "\u037a\u0390\u03af\u03b9\u03ca\u0456\u0457\u04cf\u13a5\u1f30\u1f31\u1f32\u1f33"
        "\u1f34\u1f35\u1f36\u1f37\u1f76\u1f77\u1fbe\u1fd0\u1fd1\u1fd2\u1fd3\u1fd6\u1fd7"
        "\ua647\uab75\U000118c3"
    ),
    "j": "\u03f3\u0458",
    "l": (
        "\u01c0\u038a\u0399\u03aa\u0406\u0407\u04c0\u05d5\u05df\u0627\u0661\u06f1\u07ca"
        "\u16c1\u1f38\u1f39\u1f3a\u1f3b\u1f3c\u1f3d\u1f3e\u1f3f\u1fd8\u1fd9\u1fda\u1fdb"
        "\u2c92\u2d4f\ua4f2\ufe8d\ufe8e\U0001028a\U00010309\U00010320\U00016f28\U0001e8c7"
        "\U0001ee00\U0001ee80"
    ),
    "n": "\u0578\u057c",
    "o": (
        "\u03bf\u03c3\u03cc\u043e\u04e7\u0585\u05e1\u0647\u0665\u06be\u06c1\u06d5\u06f5"
        "\u0966\u0a66\u0ae6\u0be6\u0c66\u0ce6\u0d20\u0d66\u0e50\u0ed0\u101d\u1040\u10ff"
        "\u1d0f\u1d11\u1f40\u1f41\u1f42\u1f43\u1f44\u1f45\u1f78\u1f79\u2c9f\uab3d\ufba6"
        "\ufba7\ufba8\ufba9\ufbaa\ufbab\ufbac\ufbad\ufee9\ufeea\ufeeb\ufeec\U0001042c"
        "\U000104ea\U000118c8\U000118d7\U0001ee24\U0001ee64\U0001ee84"
    ),
    "p": "\u03c1\u03f1\u0440\u1fe4\u1fe5\u2ca3",
    "q": "\u051b\u0563\u0566",
    "r": "\u0433\u0453\u1d26\u2c85\uab47\uab48\uab81",
    "s": "\u01bd\u0455\ua731\uabaa\U00010448\U000118c1",
    "u": (
        "\u03b0\u03c5\u03cb\u03cd\u057d\u1d1c\u1f50\u1f51\u1f52\u1f53\u1f54\u1f55\u1f56"
        "\u1f57\u1f7a\u1f7b\u1fe0\u1fe1\u1fe2\u1fe3\u1fe6\u1fe7\uab4e\uab52\U000104f6"
        "\U000118d8"
    ),
    "v": "\u03bd\u0475\u0477\u05d8\u1d20\uaba9\U00011706\U000118c0",
    "w": "\u0461\u051d\u0561\u1d21\uab83\U0001170a\U0001170e\U0001170f",
    "x": "\u0445\u1541\u157d",
    "y": "\u03b3\u0443\u045e\u04af\u04ef\u04f1\u04f3\u10e7\u1d8c\u213d\uab5a\U000118dc",
    "z": "\u1d22\uab93\U000118c4",
}
