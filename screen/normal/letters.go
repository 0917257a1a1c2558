package normal

// alikes lists letters of other scripts, each followed by the ASCII letter
// that it looks like: Greek, Cyrillic up to U+043F, the rest of Cyrillic,
// Armenian, Cherokee, Lisu and syllabics.
var alikes = [...]string{
	"αaΑaβbΒbγyεeΕeζzΖzηnΗhιiΙiκkΚkΜmνvΝnοoΟoρpΡpσoΣeτtΤtυuΥyχxΧxωwϲcϳjςcϵeϱp",
	"аaАaВbвbгrГrеeЕeкkКkМmмmНhнhОoоoпnПnиuИnІiЅsЈjРpСcТtУyХxЬbЯr",
	"рpсcтtуyхxіiјjѕsһhԁdԛqԝwѵvѴvӏlӀlьbүyҮyҽeөoӨoңhҡkґrқkяr",
	"աwեtզqհhոnսuցgքpօoղnռnյjОoՕoՏsՍuԼlᎠdᎡrᎢtᎥiᎪaᎫjᎬeᎳwᎷmᎻhᏀgᏂhᏃzᏎsᏏbᏒrᏔwᏙvᏚsᏞlᏟcᏢpᏦkᏴbꭰdꭱrꭲtꭵiꭺaꭻjꭼeꮃwꮇmꮋhꮐgꮓzꮟbꮢrꮪsꮮlꮯcꮲpꮶkꓐbꓑpꓓdꓔtꓖgꓗkꓙjꓚcꓜzꓝfꓟmꓠnꓡlꓢsꓣrꓦvꓧhꓪwꓫxꓬyꓮaꓰeꓲiꓳoꓴuᗩaᗷbᑕcᗪdᕮeᖴfᘜgᕼhᒍjᒪlᗰmᑎnᑭpᖇrᔕsᑌuᐯvᗯw᙭xᘔz",
}

// smallForms are Latin letters without a decomposition: small capitals,
// phonetic letters and turned ones.
var smallForms = map[rune]string{
	'ᴀ': "a", 'ʙ': "b", 'ᴄ': "c", 'ᴅ': "d", 'ᴇ': "e", 'ꜰ': "f", 'ɢ': "g", 'ʜ': "h", 'ɪ': "i", 'ᴊ': "j", 'ᴋ': "k", 'ʟ': "l",
	'ᴍ': "m", 'ɴ': "n", 'ᴏ': "o", 'ᴘ': "p", 'ǫ': "q", 'ʀ': "r", 'ꜱ': "s", 'ᴛ': "t", 'ᴜ': "u", 'ᴠ': "v", 'ᴡ': "w", 'ʏ': "y", 'ᴢ': "z",
	'ɑ': "a", 'ɐ': "a", 'ɓ': "b", 'ƈ': "c", 'ɔ': "c", 'ɗ': "d", 'ɖ': "d", 'ǝ': "e", 'ə': "e", 'ɛ': "e", 'ɟ': "f", 'ƒ': "f", 'ɡ': "g",
	'ɠ': "g", 'ƃ': "g", 'ɥ': "h", 'ɦ': "h", 'ı': "i", 'ɩ': "i", 'ɨ': "i", 'ᴉ': "i", 'ɾ': "j", 'ʝ': "j", 'ƙ': "k", 'ʞ': "k", 'ł': "l", 'ɭ': "l", 'ɫ': "l",
	'ɯ': "m", 'ɱ': "m", 'ɲ': "n", 'ŋ': "n", 'ɳ': "n", 'ø': "o", 'ɵ': "o", 'ƥ': "p", 'ʠ': "q", 'ɹ': "r", 'ɼ': "r", 'ʂ': "s", 'ʇ': "t", 'ƭ': "t", 'ŧ': "t", 'ʈ': "t",
	'ʉ': "u", 'ʋ': "v", 'ʌ': "v", 'ʍ': "w", 'ʎ': "y", 'ƴ': "y", 'ʐ': "z", 'ƶ': "z", 'đ': "d", 'ħ': "h", 'ß': "ss", 'æ': "ae", 'œ': "oe", 'þ': "th", 'ð': "d",
	'Ł': "l", 'Ø': "o", 'Đ': "d", 'Ħ': "h", 'Æ': "ae", 'Œ': "oe", 'Þ': "th", 'Ð': "d", 'Ŋ': "n", 'Ŧ': "t", 'ẞ': "ss", 'ſ': "s",
}
